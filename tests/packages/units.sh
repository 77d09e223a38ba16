#!/bin/sh
# Checks the systemd units: they are valid, and `systemd-analyze security` rates the service at most 2.0. systemd itself does
# not have to run. Exit code 69: systemd-analyze is missing, and nothing was checked.
set -eu
cd "$(dirname "$0")/../../config/systemd"

if ! sed -f ../../tests/packages/instance.sed grandstand.service | diff - grandstand@.service; then
    echo "units: write it anew, here: sed -f ../../tests/packages/instance.sed grandstand.service > grandstand@.service"
    exit 1
fi

if ! command -v systemd-analyze >/dev/null; then
    echo "units: systemd-analyze is missing; nothing was checked"
    exit 69
fi

# It reports programs and manual pages that are not installed here, too; the package installs them.
said=$(systemd-analyze verify --man=no ./*.service ./*.socket 2>&1 |
    grep -v '/usr/bin/grandstand is not executable: No such file or directory' || true)
if [ -n "$said" ]; then
    echo "$said"
    exit 1
fi
if ! rating=$(systemd-analyze security --offline=yes --threshold=20 --no-pager ./grandstand.service); then
    echo "$rating"
    exit 1
fi
echo "$rating" | tail -n 1
