#!/bin/sh
# Entry point of the test image: make a cluster on first start, then become the
# server, so that it is the process that receives docker's signals.
# Arguments are passed to postgres. Trust authentication: for tests only.
set -eu

bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
data=${PGDATA:-/var/lib/postgresql/test}
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }

if [ ! -s "$data/PG_VERSION" ]; then
    mkdir -p "$data" /var/run/postgresql
    chown postgres:postgres "$data" /var/run/postgresql
    chmod 0700 "$data"
    as_postgres "$bin/initdb" -D "$data" -U postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync >/dev/null
    echo 'host all all all trust' >>"$data/pg_hba.conf"
fi

if [ -n "${PGID_PRELOAD:-}" ]; then # libfaketime, for the clock tests
    export LD_PRELOAD="$PGID_PRELOAD"
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups \
    "$bin/postgres" -D "$data" -c listen_addresses='*' "$@"
