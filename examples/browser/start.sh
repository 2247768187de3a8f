#!/bin/sh
# Starts ChromeDriver on port 9515, and waits until it answers.
set -eu
command -v chromedriver >/dev/null || { echo "the host has no chromedriver (Debian: chromium-driver)" >&2; exit 1; }
setsid chromedriver --port=9515 --log-path=/tmp/driver.log >/dev/null 2>&1 &
for _ in $(seq 300); do
	curl -s -o /dev/null http://127.0.0.1:9515/status && exit 0
	sleep 0.1
done
cat /tmp/driver.log >&2
exit 1
