#!/usr/bin/env bash
# Tests `downloads` against a real nginx: a hundred rate-limited files at once, then a kill in the
# middle and a resume.
#
#   examples/downloads/nginx.sh             uses an installed nginx; prints SKIPPED if there is none
#   examples/downloads/nginx.sh --install   first installs Debian's nginx-light by apt-get (as root, or by sudo)
#
# With CI=true a missing nginx is a failure, so that the step cannot pass by doing nothing. FILES,
# SIZE (bytes) and RATE (bytes a second, in nginx's units) scale the test; DOWNLOADS names an
# already built program.
set -euo pipefail

files=${FILES:-100}
size=${SIZE:-6000000}
rate=${RATE:-500k}

fail() {
    echo "nginx.sh: FAILED: $*" >&2
    exit 1
}

install() {
    local root=()
    [ "$(id -u)" -eq 0 ] || root=(sudo)
    # RUNLEVEL=1 keeps the package from starting a server of its own on port 80.
    "${root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends nginx-light >&2
}

find_nginx() {
    # Debian installs nginx in a folder that is not in a normal user's PATH.
    PATH=$PATH:/usr/sbin:/sbin command -v nginx || true
}

[ "${1:-}" != --install ] || [ -n "$(find_nginx)" ] || install
nginx=$(find_nginx)
if [ -z "$nginx" ]; then
    [ "${CI:-}" != true ] || fail "nginx is missing; install nginx-light, or run with --install"
    echo "nginx.sh: SKIPPED: nginx is missing; --install gets it"
    exit 0
fi

if [ -z "${DOWNLOADS:-}" ]; then
    cd "$(dirname "$0")/../.."
    cargo build --quiet --release -p downloads
    DOWNLOADS=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/downloads
fi

folder=$(mktemp -d)
stop() {
    # shellcheck disable=SC2317  # called by the trap
    [ ! -s "$folder/nginx.pid" ] || kill "$(cat "$folder/nginx.pid")" 2>/dev/null || true
    # shellcheck disable=SC2317
    rm -rf "$folder"
}
trap stop EXIT

mkdir "$folder/www" "$folder/temp" "$folder/got"
head -c "$size" /dev/urandom >"$folder/www/huge.bin"

configure() {
    {
        # Only its owner can read the temporary folder, and as root nginx would change to another
        # user.
        [ "$(id -u)" -ne 0 ] || echo "user root;"
        cat <<CONFIGURATION
worker_processes 1;
pid $folder/nginx.pid;
error_log $folder/error.log;
events { worker_connections 4096; }
http {
    access_log $folder/access.log;
    client_body_temp_path $folder/temp/body;
    proxy_temp_path $folder/temp/proxy;
    fastcgi_temp_path $folder/temp/fastcgi;
    uwsgi_temp_path $folder/temp/uwsgi;
    scgi_temp_path $folder/temp/scgi;
    server {
        listen 127.0.0.1:$1;
        # Every copy is the same file.
        location ~ ^/copy-[0-9]+[.]bin\$ {
            alias $folder/www/huge.bin;
            limit_rate $rate;
        }
    }
}
CONFIGURATION
    } >"$folder/nginx.conf"
}

# nginx returns once it listens, or fails because the port is taken. Then another port is tried.
port=
for _ in 1 2 3 4 5 6 7 8 9 10; do
    port=$((20000 + RANDOM % 20000))
    configure "$port"
    if "$nginx" -p "$folder" -c "$folder/nginx.conf" 2>>"$folder/start.log"; then break; fi
    port=
done
[ -n "$port" ] || fail "nginx does not start: $(cat "$folder/start.log")"
url=http://127.0.0.1:$port

echo "nginx.sh: $("$nginx" -v 2>&1), $files files of $size bytes at $rate a second each"

# The time of one file alone is the unit.
now() { date +%s%N; }
begin=$(now)
"$DOWNLOADS" --quiet -o "$folder/got" "$url/copy-0.bin" >/dev/null
one=$((($(now) - begin) / 1000000))

for number in $(seq 1 "$files"); do echo "$url/copy-$number.bin"; done >"$folder/list"
begin=$(now)
"$DOWNLOADS" -i "$folder/list" -o "$folder/got"
all=$((($(now) - begin) / 1000000))
echo "nginx.sh: one file alone: $one ms; $files at once: $all ms"

for number in $(seq 0 "$files"); do
    cmp "$folder/www/huge.bin" "$folder/got/copy-$number.bin" || fail "copy-$number.bin differs"
done
[ "$(find "$folder/got" -type f ! -name .downloads.json | wc -l)" -eq $((files + 1)) ] || fail "something else was left: $(ls "$folder/got")"
# This limit is loose on purpose, because only the benchmark has to be exact. One file after another
# would take $files times as long.
[ "$all" -lt $((one * 3 + 3000)) ] || fail "$files files took $all ms, one takes $one ms: they did not run at once"

# A kill without warning, then the rest of the files.
rm "$folder/got/copy-1.bin"
"$DOWNLOADS" --quiet -o "$folder/got" "$url/copy-1.bin" >/dev/null &
child=$!
for _ in $(seq 1 1000); do
    [ ! -s "$folder/got/copy-1.bin.part" ] || break
    sleep 0.01
done
kill -9 "$child"
wait "$child" 2>/dev/null || true
[ ! -e "$folder/got/copy-1.bin" ] || fail "a file that was not complete has its final name"
kept=$(stat -c %s "$folder/got/copy-1.bin.part")
[ "$kept" -gt 0 ] && [ "$kept" -lt "$size" ] || fail "the part has $kept bytes"
"$DOWNLOADS" --quiet -o "$folder/got" "$url/copy-1.bin" >/dev/null
cmp "$folder/www/huge.bin" "$folder/got/copy-1.bin" || fail "the resumed file differs"
# nginx logs a request when it is answered, and the last request was.
grep -q "GET /copy-1.bin HTTP/1.1\" 206 $((size - kept)) " "$folder/access.log" || fail "nginx sent more than the rest: $(tail -n 3 "$folder/access.log")"
echo "nginx.sh: resumed after $kept bytes"

# A file that does not exist.
if "$DOWNLOADS" --quiet -o "$folder/got" "$url/none.bin" >/dev/null 2>"$folder/none.log"; then fail "a 404 succeeded"; fi
grep -q "404" "$folder/none.log" || fail "a 404 is not named: $(cat "$folder/none.log")"

echo "nginx.sh: OK"
