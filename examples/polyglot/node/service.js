// A service as many are: it knows nothing of budgets, and OpenTelemetry's auto-instrumentation passes its context on.
//
//   node --require @opentelemetry/auto-instrumentations-node/register service.js URL...
//
// It asks every URL for each request it gets, by fetch or (at /http) by http.request, and answers with the worst status.
const http = require('node:http');

const callees = process.argv.slice(2);

const byFetch = async (url) => {
  const response = await fetch(url);
  await response.arrayBuffer();
  return response;
};

const byRequest = (url) => new Promise((resolve, reject) => {
  http.get(url, (response) => {
    response.resume();
    response.on('end', () => resolve({ status: response.statusCode, headers: new Headers(response.headers) }));
  }).on('error', reject);
});

const server = http.createServer(async (request, response) => {
  const ask = request.url.startsWith('/http') ? byRequest : byFetch;
  let status = 200;
  for (const callee of callees) {
    try {
      status = Math.max(status, (await ask(callee)).status);
    } catch {
      status = 502;
    }
  }
  response.writeHead(status).end();
});

server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
