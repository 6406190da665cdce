#!/bin/sh
# Write the step that installs sql/ as it stands: for the first release, until it is
# released. After that, a step is written by hand.
set -eu
cd "$(dirname "$0")/.."
{
    echo "-- pgid 1: the ID, the shard, next_id."
    echo "-- Once released, this file does not change any more. The functions as they stand are in sql/."
    sed -n 's/^\\ir //p' sql/install.sql | while read -r file; do echo; cat "sql/$file"; done
} >migrations/000001_core.up.sql
