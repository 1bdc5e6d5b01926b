#!/bin/sh
# SPDX-License-Identifier: MIT
# nginx with two workers packs and serves a page to ApacheBench over the loopback device; the server stays.
set -eu
busybox ip link set lo up
mkdir /tmp/www
i=0
while [ $i -lt 400 ]; do
	echo "line $i of a page that is packed anew for everyone who asks for it"
	i=$((i + 1))
done >/tmp/www/page.html
mkdir /tmp/temp
cat >/tmp/nginx.conf <<END
user root;
worker_processes 2;
pid /tmp/nginx.pid;
error_log /tmp/nginx.log;
events { worker_connections 256; }
http {
	access_log /tmp/access.log combined buffer=64k;
	client_body_temp_path /tmp/temp/body; proxy_temp_path /tmp/temp/proxy; fastcgi_temp_path /tmp/temp/fastcgi;
	uwsgi_temp_path /tmp/temp/uwsgi; scgi_temp_path /tmp/temp/scgi;
	gzip on; gzip_comp_level 6;
	server {
		listen 127.0.0.1:8080;
		root /tmp/www;
		location /through/ { proxy_pass http://127.0.0.1:8080/; proxy_buffers 16 64k; }
	}
}
END
nginx -c /tmp/nginx.conf
for page in page.html through/page.html; do
	ab -q -k -n "$1" -c 40 -H 'Accept-Encoding: gzip' "http://127.0.0.1:8080/$page" >/tmp/ab.log 2>&1 || {
		cat /tmp/ab.log
		exit 1
	}
	echo "answer: $(sed -n 's/^Complete requests: *//p' /tmp/ab.log) $(sed -n 's/^Failed requests: *//p' /tmp/ab.log)"
done
