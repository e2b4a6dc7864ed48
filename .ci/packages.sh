# Read by the scripts beside it: what they install from pyproject.toml.

# Installs recstore's extra `test` with interpreter $1, package by package, and says which have no wheel for it: tests that
# need those skip or fail. recstore itself is not installed. $2 is the root of the checkout, $3 a file for pip's output.
install_test_packages() {
    local packages package
    mapfile -t packages < <(sed -n '/^test = \[/,/^]/s/^ *"\([^"]*\)".*/\1/p' "$2/pyproject.toml")
    if "$1" -m pip install --quiet --disable-pip-version-check --only-binary :all: "${packages[@]}" >"$3" 2>&1; then return; fi
    for package in "${packages[@]}"; do
        "$1" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$package" >"$3" 2>&1 ||
            echo "without $package, which has no wheel for this interpreter"
    done
}
