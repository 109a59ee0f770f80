// Servers of Node for the differential test: node server.cjs KIND PORT. Each answers
// with what it obeyed, after the word OBEYED. Modules come from $CLOISTER_DIFFERENTIAL.
const { createRequire } = require('module');
const load = createRequire(process.env.CLOISTER_DIFFERENTIAL + '/package.json');
const express = load('express');
const [kind, port] = process.argv.slice(2);
const app = express();
const version = (name) => load(name + '/package.json').version;
let versions = 'express ' + version('express');

if (kind === 'express') {
  const override = load('method-override');
  versions += ', method-override ' + version('method-override');
  app.set('trust proxy', true);
  app.use(express.urlencoded({ extended: true }), express.json({ type: ['json', '+json'] }));
  for (const name of ['X-HTTP-Method', 'X-HTTP-Method-Override', 'X-Method-Override', '_method']) {
    app.use(override(name, { methods: ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS', 'COPY', 'MOVE'] }));
  }
  app.use(override((req) => (req.body && typeof req.body === 'object' ? req.body._method : undefined)));
  app.use((req, res) => {
    let path = req.path;
    try { path = decodeURIComponent(path); } catch {}
    res.type('text').send('OBEYED ' + JSON.stringify({ method: req.method, path, host: req.hostname }));
  });
} else {
  const { McpServer } = load('@modelcontextprotocol/sdk/server/mcp.js');
  const { StreamableHTTPServerTransport } = load('@modelcontextprotocol/sdk/server/streamableHttp.js');
  versions = 'MCP TypeScript SDK ' + require(process.env.CLOISTER_DIFFERENTIAL + '/node_modules/@modelcontextprotocol/sdk/package.json').version;
  app.set('trust proxy', true);
  if (kind === 'mcp-override') app.use(load('method-override')('X-HTTP-Method-Override', { methods: null }));
  if (kind === 'mcp-parsed') app.use(express.json({ type: () => true }));
  app.use(async (req, res) => {
    let called = '';
    const server = new McpServer({ name: 'sample', version: '1' });
    server.registerTool('deploy', { description: 'sample' }, async () => {
      called = 'deploy';
      return { content: [{ type: 'text', text: 'OBEYED ' + JSON.stringify({ tool: called, method: req.method, path: req.path, host: req.hostname }) }] };
    });
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
    await server.connect(transport);
    if (req.method === 'GET') setTimeout(() => res.end(), 5); // a stream has no end of its own
    await transport.handleRequest(req, res, req.body);
  });
}
app.use((err, req, res, next) => res.status(err.status || 500).end('error'));
app.listen(Number(port), '127.0.0.1', () => console.log('READY ' + versions + ', node ' + process.version));
