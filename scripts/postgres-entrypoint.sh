#!/bin/sh
# Entry point of the test image. «init» makes the cluster, when the image is built;
# otherwise become the server, so that it is the process that receives docker's
# signals. Arguments are passed to postgres. Trust authentication: for tests only.
set -eu

bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
data=/var/lib/postgresql/test

if [ "${1:-}" = init ]; then
    mkdir -p "$data" /var/run/postgresql
    chown postgres:postgres "$data" /var/run/postgresql
    setpriv --reuid=postgres --regid=postgres --init-groups \
        "$bin/initdb" -D "$data" -U postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync
    echo 'host all all all trust' >>"$data/pg_hba.conf"
    exit
fi

# libfaketime, for the clock tests, is preloaded by the last of these programs: it
# must not start as root.
exec setpriv --reuid=postgres --regid=postgres --init-groups \
    ${PGID_PRELOAD:+env LD_PRELOAD="$PGID_PRELOAD"} \
    "$bin/postgres" -D "$data" -c listen_addresses='*' "$@"
