// A server with what the conformance suite of MCP asks for: everything.mjs PORT.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(process.env.MCP_MODULES + '/'));
const from = (name) => import(pathToFileURL(require.resolve('@modelcontextprotocol/sdk/' + name)));
const { Server } = await from('server/index.js');
const { StreamableHTTPServerTransport } = await from('server/streamableHttp.js');
const t = await from('types.js');

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const wav = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';
const text = (s) => ({ content: [{ type: 'text', text: s }] });
const embedded = { type: 'resource', resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'This is an embedded resource content.' } };
const image = { type: 'image', data: png, mimeType: 'image/png' };
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const enums = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string', oneOf: [{ const: 'value1', title: 'First' }, { const: 'value2', title: 'Second' }, { const: 'value3', title: 'Third' }] },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
    titledMulti: { type: 'array', items: { anyOf: [{ const: 'value1', title: 'First' }, { const: 'value2', title: 'Second' }, { const: 'value3', title: 'Third' }] } },
  },
  required: [],
};
const defaults = {
  type: 'object',
  properties: {
    name: { type: 'string', default: 'John Doe' }, age: { type: 'integer', default: 30 }, score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' }, verified: { type: 'boolean', default: true },
  },
  required: [],
};
const asked = { type: 'object', properties: { username: { type: 'string' }, email: { type: 'string' } }, required: ['username', 'email'] };
const none = { type: 'object', properties: {} };
const one = (key) => ({ type: 'object', properties: { [key]: { type: 'string' } }, required: [key] });
const elicit = async (extra, message, requestedSchema) => {
  const r = await extra.sendRequest({ method: 'elicitation/create', params: { message, requestedSchema } }, t.ElicitResultSchema);
  return text(`Elicitation completed: action=${r.action}, content=${JSON.stringify(r.content ?? {})}`);
};

const tools = {
  test_simple_text: [none, async () => text('This is a simple text response for testing.')],
  test_image_content: [none, async () => ({ content: [image] })],
  test_audio_content: [none, async () => ({ content: [{ type: 'audio', data: wav, mimeType: 'audio/wav' }] })],
  test_embedded_resource: [none, async () => ({ content: [embedded] })],
  test_multiple_content_types: [none, async () => ({
    content: [{ type: 'text', text: 'Multiple content types test:' }, image, { type: 'resource', resource: { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: '{"test":"data","value":123}' } }],
  })],
  test_tool_with_logging: [none, async (_, extra) => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data } });
      await sleep(50);
    }
    return text('Tool with logging executed successfully');
  }],
  test_tool_with_progress: [none, async (_, extra) => {
    const progressToken = extra._meta?.progressToken ?? 0;
    for (const progress of [0, 50, 100]) {
      await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total: 100, message: `Completed step ${progress} of 100` } });
      await sleep(50);
    }
    return text(String(progressToken));
  }],
  test_error_handling: [none, async () => { throw new Error('This tool intentionally returns an error for testing'); }],
  test_sampling: [one('prompt'), async ({ prompt }, extra) => {
    const r = await extra.sendRequest({ method: 'sampling/createMessage', params: { messages: [{ role: 'user', content: { type: 'text', text: prompt } }], maxTokens: 100 } }, t.CreateMessageResultSchema);
    return text(`LLM response: ${r.content.text ?? ''}`);
  }],
  test_elicitation: [one('message'), async ({ message }, extra) => elicit(extra, message, asked)],
  test_elicitation_sep1034_defaults: [none, async (_, extra) => elicit(extra, 'Please review and update the form fields with defaults', defaults)],
  test_elicitation_sep1330_enums: [none, async (_, extra) => elicit(extra, 'Please select options from the enum fields', enums)],
  json_schema_2020_12_tool: [{
    $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object',
    $defs: { address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
    properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } }, additionalProperties: false,
  }, async (args) => text(JSON.stringify(args))],
  test_reconnection: [none, async (_, extra) => { extra.closeSSEStream?.(); await sleep(100); return text('Reconnection test completed successfully.'); }],
};

const prompts = {
  test_simple_prompt: [[], () => [{ type: 'text', text: 'This is a simple prompt for testing.' }]],
  test_prompt_with_arguments: [['arg1', 'arg2'], (a) => [{ type: 'text', text: `Prompt with arguments: arg1='${a.arg1}', arg2='${a.arg2}'` }]],
  test_prompt_with_embedded_resource: [['resourceUri'], (a) => [
    { type: 'resource', resource: { uri: a.resourceUri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' } },
    { type: 'text', text: 'Please process the embedded resource above.' }]],
  test_prompt_with_image: [[], () => [image, { type: 'text', text: 'Please analyze the image above.' }]],
};

const resources = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: png },
  'test://watched-resource': { mimeType: 'text/plain', text: 'Watched resource content' },
};

function make() {
  const s = new Server({ name: 'everything', version: '1.0.0' }, {
    capabilities: { tools: { listChanged: true }, prompts: { listChanged: true }, resources: { subscribe: true, listChanged: true }, logging: {}, completions: {} },
  });
  s.setRequestHandler(t.ListToolsRequestSchema, async () => ({ tools: Object.entries(tools).map(([name, [inputSchema]]) => ({ name, description: `The tool ${name}`, inputSchema })) }));
  s.setRequestHandler(t.CallToolRequestSchema, async (r, extra) => {
    try {
      return await tools[r.params.name][1](r.params.arguments ?? {}, extra);
    } catch (e) {
      return { isError: true, ...text(e.message) };
    }
  });
  s.setRequestHandler(t.ListPromptsRequestSchema, async () => ({
    prompts: Object.entries(prompts).map(([name, [args]]) => ({ name, description: `The prompt ${name}`, arguments: args.map((n) => ({ name: n, description: n, required: true })) })),
  }));
  s.setRequestHandler(t.GetPromptRequestSchema, async (r) => ({ messages: prompts[r.params.name][1](r.params.arguments ?? {}).map((content) => ({ role: 'user', content })) }));
  s.setRequestHandler(t.ListResourcesRequestSchema, async () => ({ resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri, description: uri, mimeType })) }));
  s.setRequestHandler(t.ListResourceTemplatesRequestSchema, async () => ({ resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }] }));
  s.setRequestHandler(t.ReadResourceRequestSchema, async ({ params: { uri } }) => {
    const id = /^test:\/\/template\/(.+)\/data$/.exec(uri)?.[1];
    return { contents: [{ uri, ...(id ? { mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) } : resources[uri]) }] };
  });
  s.setRequestHandler(t.SubscribeRequestSchema, async () => ({}));
  s.setRequestHandler(t.UnsubscribeRequestSchema, async () => ({}));
  s.setRequestHandler(t.SetLevelRequestSchema, async () => ({}));
  s.setRequestHandler(t.CompleteRequestSchema, async () => ({ completion: { values: ['paris', 'park', 'party'], total: 150, hasMore: false } }));
  return s;
}

// Events are kept, so that a stream that ends can be taken up again.
const events = new Map();
const store = {
  async storeEvent(stream, message) {
    const id = `${stream}_${events.size}`;
    events.set(id, { stream, message });
    return id;
  },
  async getStreamIdForEventId(id) { return events.get(id)?.stream; },
  async replayEventsAfter(last, { send }) {
    const stream = events.get(last)?.stream;
    let found = false;
    for (const [id, e] of events) {
      if (found && e.stream === stream && Object.keys(e.message).length > 0) await send(id, e.message);
      found ||= id === last;
    }
    return stream;
  },
};

const sessions = new Map();
const local = /^(localhost|127\.0\.0\.1|mcp\.test)(:\d+)?$/;
createServer(async (req, res) => {
  const origin = req.headers.origin && new URL(req.headers.origin).host;
  if (!local.test(req.headers.host) || (origin && !local.test(origin))) {
    res.writeHead(403).end();
    return;
  }
  let transport = sessions.get(req.headers['mcp-session-id']);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID, eventStore: store, retryInterval: 500,
      onsessioninitialized: (id) => { sessions.set(id, transport); },
    });
    await make().connect(transport);
  }
  await transport.handleRequest(req, res);
}).listen(Number(process.argv[2]), '127.0.0.1', () => console.log('ready'));
