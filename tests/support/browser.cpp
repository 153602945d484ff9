#include "tests/support/browser.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "tests/support/folder.hpp"

// The library's class layout depends on these macros.
#if !defined(CPPHTTPLIB_OPENSSL_SUPPORT) || !defined(CPPHTTPLIB_ZLIB_SUPPORT) || \
    !defined(CPPHTTPLIB_BROTLI_SUPPORT)
#error "compile with the flags of pkg-config --cflags cpp-httplib"
#endif

namespace tapestry {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* chromium = "/usr/bin/chromium";
constexpr const char* chromedriver = "/usr/bin/chromedriver";
constexpr std::chrono::seconds limit{60};     // of what a page or chromedriver is waited for
constexpr std::chrono::seconds patience{70};  // chromedriver, which has that limit, answers before

// Makes media queries find a mouse.
constexpr const char* mouse =
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,"
    "availablePointerTypes=4";

[[noreturn]] void fail(const std::string& message) {
  throw std::runtime_error("browser: " + message);
}

// Calls `ready` until it returns true.
template <class Ready>
void wait_until(const std::string& what, Ready ready) {
  const auto end = Clock::now() + limit;
  while (!ready()) {
    if (Clock::now() > end) fail(fmt::format("waited {} s for {}", limit.count(), what));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::vector<char*> pointers(const Strings& words) {
  std::vector<char*> found;
  for (const std::string& word : words) found.push_back(const_cast<char*>(word.c_str()));
  found.push_back(nullptr);
  return found;
}

// chromedriver, Chromium and their processes. A process between them and this one adopts orphans,
// and ends all of them and removes their folder, also if this process is killed.
class Driver {
 public:
  explicit Driver(const std::string& folder) : log_(folder + "/log") {
    const Strings program = {chromedriver, "--port=0", "--enable-chrome-logs"};
    const Strings environment = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + folder,
                                 "TMPDIR=" + folder};
    const Strings remove = {"/bin/rm", "-rf", "--", folder};
    const Start start{pointers(program), pointers(environment), pointers(remove), log_.c_str()};
    std::ofstream(log_).flush();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("no pipe");
    keeper_ = fork();
    if (keeper_ == 0) keep(start, ends[0]);
    close(ends[0]);
    lifeline_ = ends[1];
    if (keeper_ < 0) {
      close(lifeline_);
      fail("no process");
    }
  }

  ~Driver() {
    close(lifeline_);
    const auto end = Clock::now() + limit;
    while (!ended() && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!ended()) {
      kill(keeper_, SIGKILL);
      waitpid(keeper_, nullptr, 0);
    }
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  int port() {
    const std::string announced = "successfully on port ";
    int port = 0;
    wait_until("chromedriver's port", [&] {
      const std::string written = log();
      const auto at = written.find(announced);
      if (at != std::string::npos && written.find(".\n", at) != std::string::npos)
        port = std::stoi(written.substr(at + announced.size()));
      else if (written.ends_with(has_ended))
        fail(written);
      return port > 0;
    });
    return port;
  }

  std::string log() const {  // of chromedriver and of Chromium
    std::ifstream file(log_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  static constexpr std::string_view has_ended = "chromedriver has ended\n";

  struct Start {
    std::vector<char*> program, environment, remove;
    const char* log;
  };

  // Runs after fork() of a process with threads: calls only functions that are safe then.
  [[noreturn]] static void keep(const Start& start, int lifeline) {
    for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    dup2(lifeline, STDIN_FILENO);
    const int log = open(start.log, O_WRONLY | O_APPEND);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    closefrom(STDERR_FILENO + 1);
    const pid_t driver = fork();
    if (driver == 0) {
      setpgid(0, 0);
      close(STDIN_FILENO);
      open("/dev/null", O_RDONLY);
      execve(start.program[0], start.program.data(), start.environment.data());
      _exit(127);
    }
    setpgid(driver, driver);  // whichever is first

    pollfd parent{STDIN_FILENO, POLLIN, 0};
    bool runs = driver > 0;
    while (runs && poll(&parent, 1, 50) == 0)
      for (pid_t dead = 1; dead > 0;) {
        dead = waitpid(-1, nullptr, WNOHANG);
        if (dead == driver) runs = false;
      }
    if (driver > 0) kill(-driver, SIGKILL);
    while (waitpid(-1, nullptr, 0) > 0) continue;
    if (!runs && write(STDOUT_FILENO, has_ended.data(), has_ended.size()) > 0)
      poll(&parent, 1, -1);  // until it was read
    execve(start.remove[0], start.remove.data(), start.environment.data());
    _exit(1);
  }

  bool ended() {
    if (!ended_) ended_ = waitpid(keeper_, nullptr, WNOHANG) != 0;
    return ended_;
  }

  std::string log_;
  pid_t keeper_ = 0;
  int lifeline_ = -1;
  bool ended_ = false;
};

std::string file_url(const std::string& path) {
  std::string url = "file://";
  for (const char letter : fs::absolute(path).string()) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    if (plain || std::string("/-._~").find(letter) != std::string::npos)
      url += letter;
    else
      url += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return url;
}

std::string from_base64(const std::string& text) {
  static const std::string letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  for (const char letter : text) {
    const auto value = letters.find(letter);
    if (value == std::string::npos) break;  // "="
    bits = bits << 6 | static_cast<unsigned>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 255);
  }
  return bytes;
}

// Scrolls a point of an element into view unless it is visible, and returns the positions of all
// points in the view, in whole pixels inside of the element.
constexpr const char* locate = R"(
  const [element, points] = arguments;
  const place = ({x, y}) => {
    const box = element.getBoundingClientRect();
    const along = (start, end, part) => {
      const at = start + part * (end - start);
      if (part < 0 || part > 1) return at;
      return Math.max(Math.ceil(start), Math.min(at, Math.ceil(end) - 1));
    };
    return {x: along(box.left, box.right, x), y: along(box.top, box.bottom, y)};
  };
  const inside = ({x, y}) => 0 <= x && x < innerWidth && 0 <= y && y < innerHeight;
  const seen = at => inside(at) && element.contains(document.elementFromPoint(at.x, at.y));
  if (!points.map(place).every(seen)) {
    element.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
    const places = points.map(place);
    const middle = axis => places.reduce((sum, at) => sum + at[axis], 0) / places.length;
    if (!places.every(inside))
      scrollBy({left: middle('x') - innerWidth / 2, top: middle('y') - innerHeight / 2,
                behavior: 'instant'});
  }
  return points.map(place).map(at => ({...at, inside: inside(at)}));
)";

}  // namespace

struct Browser::Session {
  TemporaryFolder folder{"/tmp"};  // /dev/shm may be small, and names of sockets are short
  Driver driver{folder.path()};
  httplib::Client client{"127.0.0.1", driver.port()};
  std::string path = "/session";

  Session() {
    client.set_keep_alive(true);
    client.set_tcp_nodelay(true);  // otherwise each request waits 40 ms
    client.set_connection_timeout(patience);
    client.set_read_timeout(patience);
    const Json timeouts = {{"script", limit.count() * 1000}, {"pageLoad", limit.count() * 1000}};
    const Json arguments = {"--headless=new",
                            "--no-sandbox",
                            "--disable-gpu",
                            "--hide-scrollbars",
                            "--no-first-run",
                            "--disable-background-networking",
                            "--disable-component-update",
                            "--disable-extensions",
                            "--disable-breakpad",
                            "--force-color-profile=srgb",
                            mouse,
                            "--host-resolver-rules=MAP * ~NOTFOUND",
                            "--user-data-dir=" + folder.path("profile")};
    const Json wanted = {{"browserName", "chrome"},
                         {"timeouts", timeouts},
                         {"goog:chromeOptions", {{"binary", chromium}, {"args", arguments}}},
                         {"goog:loggingPrefs", {{"browser", "ALL"}}}};
    try {
      const Json begun = post("", {{"capabilities", {{"alwaysMatch", wanted}}}}, "a session");
      path += "/" + begun.at("sessionId").get<std::string>();
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("{}\n{}", error.what(), driver.log()));
    }
  }

  // Returns the value of chromedriver's answer; messages name `about`.
  Json post(const std::string& command, const Json& body, const std::string& about = "") {
    return value_of(client.Post((path + command).c_str(), body.dump(), "application/json"),
                    about.empty() ? "POST " + command : about);
  }
  Json get(const std::string& command, const std::string& about = "") {
    return value_of(client.Get((path + command).c_str()), about.empty() ? "GET " + command : about);
  }

  static Json value_of(const httplib::Result& answer, const std::string& about) {
    if (!answer)
      fail(fmt::format("{}: no answer of chromedriver, which has {} s: {}", about, patience.count(),
                       httplib::to_string(answer.error())));
    const Json body = Json::parse(answer->body, nullptr, false);
    if (!body.is_object() || !body.contains("value"))
      fail(fmt::format("{}: chromedriver answers {}", about, answer->body));
    const Json& value = body.at("value");
    if (answer->status == 200) return value;
    // The other lines are versions and addresses of chromedriver's functions.
    const std::string message = value.value("message", answer->body);
    fail(fmt::format("{}: {}", about, message.substr(0, message.find('\n'))));
  }

  void command(const std::string& name, const Json& parameters) {
    post("/goog/cdp/execute", {{"cmd", name}, {"params", parameters}}, name);
  }

  // Returns WebDriver's reference of the element.
  Json element(const std::string& selector) {
    return post("/element", {{"using", "css selector"}, {"value", selector}}, selector);
  }
  std::string element_path(const std::string& selector) {
    return "/element/" + element(selector).begin()->get<std::string>();
  }

  std::vector<Point> places(const std::string& selector, const std::vector<Point>& points) {
    Json asked = Json::array();
    for (const Point& point : points) asked.push_back({{"x", point.x}, {"y", point.y}});
    const Json arguments = Json::array({element(selector), asked});
    std::vector<Point> found;
    for (const Json& at :
         post("/execute/sync", {{"script", locate}, {"args", arguments}}, selector)) {
      found.push_back({at.at("x"), at.at("y")});
      if (!at.at("inside").get<bool>())
        fail(fmt::format("{}: a point at {}, {} is out of view", selector, found.back().x,
                         found.back().y));
    }
    return found;
  }

  void point(const std::string& kind, const Json& actions, const std::string& about) {
    const Json pointer = {{"type", "pointer"},
                          {"id", kind},
                          {"parameters", {{"pointerType", kind}}},
                          {"actions", actions}};
    post("/actions", {{"actions", Json::array({pointer})}}, about);
  }
};

bool has_browser() { return access(chromium, X_OK) == 0 && access(chromedriver, X_OK) == 0; }

Browser::Browser() : session_(std::make_unique<Session>()) {}
Browser::~Browser() = default;

void Browser::open(const std::string& path) {
  if (!fs::exists(path)) fail(path + ": no such file");  // Chromium shows a page of it
  session_->post("/url", {{"url", file_url(path)}}, path);
}

void Browser::resize(int width, int height, bool phone) {
  session_->command("Emulation.setDeviceMetricsOverride", {{"width", width},
                                                           {"height", height},
                                                           {"deviceScaleFactor", phone ? 2 : 1},
                                                           {"mobile", phone}});
  if (phone != phone_)
    session_->command("Emulation.setTouchEmulationEnabled", {{"enabled", phone}});
  phone_ = phone;
}

void Browser::prefer_dark(bool dark) {
  const Json scheme = {{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}};
  session_->command("Emulation.setEmulatedMedia", {{"features", Json::array({scheme})}});
}

void Browser::disable_scripts(bool disabled) {
  session_->command("Emulation.setScriptExecutionDisabled", {{"value", disabled}});
}

Json Browser::run(const std::string& script, const Json& arguments) {
  return session_->post("/execute/sync", {{"script", script}, {"args", arguments}},
                        script.substr(0, 80));
}

void Browser::wait_for(const std::string& condition) {
  wait_until(condition, [&] { return run("return !!(" + condition + ")").get<bool>(); });
}

std::string Browser::text(const std::string& selector) {
  return session_->get(session_->element_path(selector) + "/text", selector);
}

void Browser::click(const std::string& selector) {
  session_->places(selector, {{0.5, 0.5}});  // WebDriver does not wait for smooth scrolling
  session_->post(session_->element_path(selector) + "/click", Json::object(), selector);
}

void Browser::keys(const std::string& selector, const std::string& text) {
  session_->post(session_->element_path(selector) + "/value", {{"text", text}}, selector);
}

void Browser::hover(const std::string& selector, double x, double y) {
  const Point at = session_->places(selector, {{x, y}}).front();
  const Json move = {{"type", "pointerMove"}, {"duration", 0}, {"x", at.x}, {"y", at.y}};
  session_->point("mouse", Json::array({move}), selector);
}

void Browser::drag(const std::string& selector, Point from, Point to) {
  const std::vector<Point> ends = session_->places(selector, {from, to});
  constexpr int steps = 10;
  Json actions = Json::array();
  for (int step = 0; step <= steps; ++step) {
    const double part = static_cast<double>(step) / steps;
    actions.push_back({{"type", "pointerMove"},
                       {"duration", 0},
                       {"x", ends[0].x + part * (ends[1].x - ends[0].x)},
                       {"y", ends[0].y + part * (ends[1].y - ends[0].y)}});
    if (step == 0) actions.push_back({{"type", "pointerDown"}, {"button", 0}});
  }
  actions.push_back({{"type", "pointerUp"}, {"button", 0}});
  session_->point(phone_ ? "touch" : "mouse", actions, selector);
}

std::string Browser::screenshot() { return from_base64(session_->get("/screenshot")); }

Strings Browser::console() {
  Strings messages;
  for (const Json& entry : session_->post("/se/log", {{"type", "browser"}}))
    messages.push_back(entry.at("level").get<std::string>() + " " +
                       entry.at("message").get<std::string>());
  return messages;
}

}  // namespace tapestry
