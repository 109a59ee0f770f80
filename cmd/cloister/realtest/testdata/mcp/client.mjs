// The SDK's client: client.mjs URL '[["tool", {arguments}], ...]'.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(process.env.MCP_MODULES + '/'));
const from = (name) => import(pathToFileURL(require.resolve('@modelcontextprotocol/sdk/' + name)));
const { Client } = await from('client/index.js');
const { StreamableHTTPClientTransport } = await from('client/streamableHttp.js');

const c = new Client({ name: 'realtest', version: '1' });
await c.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
console.log('tools ' + (await c.listTools()).tools.map((t) => t.name).join(','));
for (const [name, args] of JSON.parse(process.argv[3])) {
  try {
    console.log(`${name}: ${(await c.callTool({ name, arguments: args })).content[0].text}`);
  } catch (e) {
    console.log(`${name} refused: ${e.message}`);
  }
}
await c.close();
