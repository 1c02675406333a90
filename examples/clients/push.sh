#!/usr/bin/env bash
# Pushes one event over HTTP: bash push.sh http://127.0.0.1:8080/events/default/orders TOKEN
set -euo pipefail
curl --fail-with-body --silent --show-error --write-out '%{http_code}\n' "$1" \
  --header "Authorization: Bearer $2" \
  --header 'Ce-Specversion: 1.0' --header 'Ce-Id: bash-1' --header 'Ce-Source: /shop' --header 'Ce-Type: order.placed' \
  --header 'Content-Type: application/json' --data '{"total": 12}'
