#!/usr/bin/env bash
# Build the image that the integration tests run: pgid-postgres:VERSION,
# PostgreSQL with plpgsql_check (where it is packaged) and libfaketime.
#
#   scripts/postgres-image.sh VERSION...        VERSION: 15, 16, 17, 18 or 19
#
# From the official image where it can be pulled, else from Debian's packages
# with debootstrap (needs root). Does nothing for an image that is up to date.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
die() { echo "postgres-image.sh: $*" >&2; exit 1; }
[ $# -gt 0 ] || die "which PostgreSQL? Usage: postgres-image.sh 15|16|17|18|19..."
command -v docker >/dev/null || die "docker is not installed"
docker info >/dev/null 2>&1 || die "the Docker daemon does not answer: start it"

recipe=$(cat "${BASH_SOURCE[0]}" "$here/postgres-entrypoint.sh" | sha256sum | cut -c1-16)
work=
trap '[ -z "$work" ] || remove_tree "$work"' EXIT

# Unmount before removing: a /proc left mounted would be walked into.
remove_tree() {
    if mountpoint -q "$1/root/proc" 2>/dev/null; then umount "$1/root/proc"; fi
    rm -rf --one-file-system "$1"
}

from_official() {
    local version=$1 tag
    for tag in "$version" "${version}rc1"; do
        timeout 600 docker pull -q "postgres:$tag" >/dev/null 2>&1 || continue
        cp "$here/postgres-entrypoint.sh" "$work/"
        cat >"$work/Dockerfile" <<DOCKERFILE
FROM postgres:$tag
RUN apt-get update -qq \\
 && apt-get install -y -qq --no-install-recommends libfaketime \\
 && (apt-get install -y -qq --no-install-recommends postgresql-$version-plpgsql-check || true) \\
 && rm -rf /var/lib/apt/lists/*
COPY postgres-entrypoint.sh /usr/local/bin/postgres-entrypoint.sh
RUN postgres-entrypoint.sh init >/dev/null
LABEL pgid.recipe=$recipe
VOLUME /var/lib/postgresql/test
EXPOSE 5432
ENTRYPOINT ["/usr/local/bin/postgres-entrypoint.sh"]
CMD []
DOCKERFILE
        docker build -q -t "pgid-postgres:$version" "$work" >/dev/null
        return
    done
    return 1
}

from_debian() {
    local version=$1 root="$work/root" suite script=
    case $version in
        15) suite=bookworm ;;
        17) suite=trixie ;;
        18) suite=forky script=trixie ;;
        19) suite=sid ;;
        *) die "the image postgres:$version cannot be pulled, and Debian packages PostgreSQL 15, 17, 18 and 19 only" ;;
    esac
    [ "$(id -u)" = 0 ] || die "the image postgres:$version cannot be pulled; building it from Debian's packages needs root"
    command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null ||
        die "debootstrap is missing and could not be installed"

    local mirror include=libfaketime
    mirror=$(sed -n "s/^DEF_MIRROR=\"\(.*\)\"$/\1/p" "$(command -v debootstrap)") # debootstrap has one, but wants it named
    [ "$version" = 19 ] || include="$include,postgresql-$version,postgresql-$version-plpgsql-check"
    [ -z "$script" ] || script="/usr/share/debootstrap/scripts/$script"
    debootstrap --variant=minbase --include="$include" "$suite" "$root" \
        "$mirror" ${script:+"$script"} >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log" >&2; die "debootstrap of $suite failed"; }
    if [ "$version" = 19 ]; then # a release candidate: in experimental only
        echo "deb $mirror experimental main" >"$root/etc/apt/sources.list.d/experimental.list"
        mount -t proc proc "$root/proc"
        chroot "$root" sh -c 'apt-get -qq -o Acquire::Check-Valid-Until=false update &&
            DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install \
                postgresql-19/experimental postgresql-client-19/experimental libpq5/experimental' \
            >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "installing postgresql-19 failed"; }
        umount "$root/proc"
    fi
    install -m 0755 "$here/postgres-entrypoint.sh" "$root/usr/local/bin/"
    chroot "$root" postgres-entrypoint.sh init >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "initdb failed"; }
    tar -C "$root" -c \
        --exclude=./usr/share/doc/* --exclude=./usr/share/man/* --exclude=./usr/share/locale/* \
        --exclude=./var/cache/apt/* --exclude=./var/lib/apt/lists/* --exclude=./var/lib/postgresql/[0-9]* . |
        docker import \
            -c 'ENTRYPOINT ["/usr/local/bin/postgres-entrypoint.sh"]' \
            -c 'VOLUME ["/var/lib/postgresql/test"]' \
            -c 'EXPOSE 5432' -c "LABEL pgid.recipe=$recipe" \
            - "pgid-postgres:$version" >/dev/null
}

for version in "$@"; do
    [[ $version =~ ^1[5-9]$ ]] || die "PostgreSQL version \"$version\" is not one of 15, 16, 17, 18, 19"
    have=$(docker image inspect -f '{{index .Config.Labels "pgid.recipe"}}' "pgid-postgres:$version" 2>/dev/null || true)
    [ "$have" != "$recipe" ] || continue
    work=$(mktemp -d "${TMPDIR:-/tmp}/pgid-image.XXXXXX")
    echo "postgres-image.sh: building pgid-postgres:$version (about a minute) ..." >&2
    from_official "$version" || from_debian "$version"
    remove_tree "$work"; work=
done
