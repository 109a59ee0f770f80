// What an agent of the OpenAI Agents SDK does in a sandbox of E2B's, unchanged. Its model is a list of what it wants.
import assert from 'node:assert'
import { run, Usage } from '@openai/agents'
import { Manifest, SandboxAgent } from '@openai/agents/sandbox'
import { E2BSandboxClient } from '@openai/agents-extensions/sandbox/e2b'

const wants = [
  'cat add.sh; sh add.sh; id -un',
  "sed -i 's/1 - 1/1 + 1/' add.sh && sh add.sh",
  'cat /root/.bashrc; echo looked',
]
const told = []
const model = {
  async getResponse({ input }) {
    const last = input.at(-1)
    if (last?.type === 'function_call_result') told.push(JSON.stringify(last.output))
    const n = told.length
    const output = n < wants.length
      ? { type: 'function_call', callId: `call${n}`, name: 'exec_command', status: 'completed', arguments: JSON.stringify({ cmd: wants[n] }) }
      : { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'mended' }] }
    return { usage: new Usage(), output: [output] }
  },
}
const agent = new SandboxAgent({
  name: 'coder', model,
  defaultManifest: new Manifest({ root: '/home/user/w', entries: { 'add.sh': { type: 'file', content: 'echo $((1 - 1))\n' } } }),
})
const result = await run(agent, 'add.sh does not add. Mend it.', {
  maxTurns: 10, sandbox: { client: new E2BSandboxClient({ template: 'base', timeout: 120 }) },
})
assert.equal(result.finalOutput, 'mended')
assert.match(told[0], /echo \$\(\(1 - 1\)\)\\n0\\nuser/)
assert.match(told[1], /\\n2\\n/)
assert.match(told[2], /looked/)
assert.doesNotMatch(told[2], /secret/)
console.log('all well')
