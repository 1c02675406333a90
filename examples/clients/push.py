"""Pushes one event over HTTP: python push.py http://127.0.0.1:8080/events/default/orders TOKEN"""

import json
import sys
import urllib.request

url, token = sys.argv[1:]
event = {"specversion": "1.0", "id": "python-1", "source": "/shop", "type": "order.placed", "data": {"total": 12}}
headers = {"Content-Type": "application/cloudevents+json", "Authorization": f"Bearer {token}"}
with urllib.request.urlopen(urllib.request.Request(url, json.dumps(event).encode(), headers)) as answer:
    print(answer.status, answer.read().decode())
