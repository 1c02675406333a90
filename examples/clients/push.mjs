// Pushes one event over HTTP: node push.mjs http://127.0.0.1:8080/events/default/orders TOKEN
const [url, token] = process.argv.slice(2);
const event = { specversion: "1.0", id: "javascript-1", source: "/shop", type: "order.placed", data: { total: 12 } };
const answer = await fetch(url, {
  method: "POST",
  headers: { "Content-Type": "application/cloudevents+json", Authorization: `Bearer ${token}` },
  body: JSON.stringify(event),
});
console.log(answer.status, await answer.text());
process.exitCode = answer.ok ? 0 : 1;
