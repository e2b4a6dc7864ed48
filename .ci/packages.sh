# Read by the scripts beside it: what they install from pyproject.toml, and how they run the tests of an interpreter.

# Installs the packages of recstore's extra `test` with interpreter $1, without recstore itself. Says which of them have
# no wheel for the interpreter: tests that need those skip. Any other failure of pip ends it with 1. $2 is the root of
# the checkout, $3 a file for pip's output.
install_test_packages() {
    local packages=() package
    while IFS= read -r package; do packages+=("$package"); done < <(
        sed -n '/^test = \[/,/^]/s/^ *"\([^"]*\)".*/\1/p' "$2/pyproject.toml"
    )
    if wheels_alone "$1" "$3" "${packages[@]}"; then return; fi
    for package in "${packages[@]}"; do
        if wheels_alone "$1" "$3" "$package"; then continue; fi
        if ! grep -q 'No matching distribution found' "$3"; then cat "$3"; return 1; fi
        echo "without $package, which has no wheel for this interpreter"
    done
}

wheels_alone() { "$1" -m pip install --quiet --disable-pip-version-check --only-binary :all: "${@:3}" >"$2" 2>&1; }

# Runs the pytest that stands beside interpreter $1, with the arguments that follow. A free-threaded interpreter stays
# without its lock, which a package that does not declare itself would switch on.
run_tests() {
    if [ "$("$1" -c 'import sys; print("t" in sys.abiflags)')" = True ]; then export PYTHON_GIL=0; fi
    "$(dirname "$1")/pytest" -n auto --dist worksteal "${@:2}"
}
