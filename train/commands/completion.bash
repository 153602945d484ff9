# Completes tapestry's commands, options, shipped configs and files. Takes all but the files from the
# installed program, even if another path was typed, so that the Tab key runs no program in a folder.
_tapestry() {
  local first=1 current=${COMP_WORDS[COMP_CWORD]} words=""
  while [[ ${COMP_WORDS[first]} =~ ^--(rebuilt-)?plugin$ ]] && ((first < COMP_CWORD)); do ((first += 2)); done
  local command=${COMP_WORDS[first]}
  if ((COMP_CWORD == first)); then
    words="--help --version --plugin --rebuilt-plugin $(command tapestry --help 2>/dev/null | awk '/^Subcommands:/ {on = 1; next} on {print $1}')"
  elif [[ $current == -* ]]; then
    words=$(command tapestry "$command" --help 2>/dev/null | awk '$1 ~ /^-/ {gsub(/-h,/, ""); print $1}')
  elif ((COMP_CWORD == first + 1)) && [[ $command =~ ^(train|search|plan|doctor|gradcheck|config|bench)$ ]]; then
    words=$(command tapestry list 2>/dev/null | awk '/^[^ ]/ {print $1}')
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o bashdefault -o default -F _tapestry tapestry
