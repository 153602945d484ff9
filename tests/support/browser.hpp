#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// Opens pages in Debian's chromium by chromedriver and WebDriver.
namespace tapestry {

// Returns whether chromium and chromedriver are installed; otherwise tests say that they were
// skipped.
bool has_browser();

// WebDriver's code points of keys without a letter.
inline constexpr const char *key_shift = "\uE008", *key_home = "\uE011", *key_up = "\uE013",
                            *key_right = "\uE014";

// A headless Chromium without a network. Functions throw std::runtime_error if they fail or take
// longer than 30 s.
class Browser {
 public:
  struct Point {
    double x, y;  // fractions of an element's box
  };

  Browser();
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void open(const std::string& path);  // a file
  // Sets the page's size in CSS pixels. A phone has two dots per pixel, and a touch screen in place
  // of a mouse; both apply to pages opened later.
  void resize(int width, int height, bool phone = false);
  void prefer_dark(bool dark);
  void disable_scripts(bool disabled);  // of pages opened later, except in run()

  // Returns the value of a function with this body; awaits a promise.
  nlohmann::json run(const std::string& script,
                     const nlohmann::json& arguments = nlohmann::json::array());
  void wait_for(const std::string& condition);  // an expression that becomes true

  // Functions of the first element that the selector matches.
  std::string text(const std::string& selector);  // visible text only
  void click(const std::string& selector);
  void keys(const std::string& selector, const std::string& text);
  void hover(const std::string& selector, double x, double y);
  void drag(const std::string& selector, Point from, Point to);  // by a finger on a phone

  std::string screenshot();            // a PNG file of what is in view
  std::vector<std::string> console();  // "LEVEL text" of each message since the last call

 private:
  struct Session;

  std::unique_ptr<Session> session_;
  bool phone_ = false;
};

}  // namespace tapestry
