#!/bin/sh
# Makes a database, starts its server, and fills it.
set -eu
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1):$PATH

initdb --pgdata data --auth trust --username app --no-sync >/dev/null
# Durability is for the host's databases: this one ends with its cell.
pg_ctl --pgdata data --wait --log log --options "-k /tmp -h '' -c fsync=off" start >/dev/null
createdb --host /tmp --username app shop
psql --host /tmp --username app --quiet shop <<'END'
create table orders (id int primary key, price int not null check (price > 0));
insert into orders select i, 10 from generate_series(1, 1000) i;
END
