#!/bin/sh
# Before a run on a local server: on Debian and its kin, as root, install what is
# missing for it. Elsewhere, and where nothing is missing, do nothing.
#
#   scripts/local-tools.sh demo|test
set -eu

[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0

missing=
if [ -z "${PGID_POSTGRES_BIN:-}" ] && ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    missing="postgresql"
fi
case ${1:-} in
demo)
    [ -z "${PGID_DATABASE_URL:-}" ] || exit 0
    ;;
test)
    case ${PGID_TEST_BACKEND:-} in
    url | container) exit 0 ;;
    local) ;;
    *)
        [ -z "${PGID_TEST_DATABASE_URL:-}" ] || exit 0
        if command -v docker >/dev/null && docker info >/dev/null 2>&1; then exit 0; fi
        ;;
    esac
    ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing="$missing libfaketime"
    ;;
*)
    echo "local-tools.sh: for what? Usage: local-tools.sh demo|test" >&2
    exit 1
    ;;
esac

[ -n "$missing" ] || exit 0
echo "local-tools.sh: installing$(printf ' %s' $missing) with apt-get" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >/dev/null 2>&1 || true
# Where it fails, embedded-postgres downloads a server, and tests say what they lack.
# shellcheck disable=SC2086 # a list of packages
apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
    echo "local-tools.sh: that failed; going on without" >&2
