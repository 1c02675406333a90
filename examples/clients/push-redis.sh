#!/usr/bin/env bash
# Pushes one event without HTTP: bash push-redis.sh "$(cat .penstock/broker.url)" '{penstock}:events:default/orders'
set -euo pipefail
redis-cli -u "$1" --no-auth-warning XADD "$2" '*' \
  specversion 1.0 id redis-1 source /shop type order.placed datacontenttype application/json data '{"total": 12}'
