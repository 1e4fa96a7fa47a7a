// Prints what the codec beside it makes of each vector, one JSON object a line.
const fs = require('node:fs');
const path = require('node:path');
const { read, readReturn } = require(path.resolve(process.argv[2]));

const vectors = JSON.parse(fs.readFileSync(process.argv[3], 'utf8'));
for (const v of vectors.request) console.log(JSON.stringify({ name: v.name, got: read(v.baggage, v.chainbudget, v.max_budget) }));
for (const v of vectors.response) console.log(JSON.stringify({ name: v.name, got: readReturn(v.chainbudget_return, v.sent_nonce, v.leased) }));
