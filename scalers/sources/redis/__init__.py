"""Redis and Valkey: single servers, clusters and sentinels; lists and streams on them."""
