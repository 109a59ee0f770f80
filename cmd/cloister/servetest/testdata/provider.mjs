// What a program does with the OpenAI Agents SDK's provider for E2B, unchanged.
import assert from 'node:assert'
import { Manifest } from '@openai/agents/sandbox'
import { E2BSandboxClient } from '@openai/agents-extensions/sandbox/e2b'

const client = new E2BSandboxClient({ template: 'base', timeout: 120 })
const session = await client.create(new Manifest({ root: '/home/user/w', entries: { 'a.txt': { type: 'file', content: 'first\n' } } }))
try {
  const said = await session.execCommand({ cmd: 'cat a.txt; id -un; pwd; cat /root/.bashrc; echo $?' })
  assert.match(said, /exited with code 0[^]*\nfirst\nuser\n\/home\/user\/w\n1\n/)
  assert.match(await session.execCommand({ cmd: 'exit 3' }), /exited with code 3/)

  const editor = session.createEditor()
  await editor.updateFile({ type: 'update_file', path: 'a.txt', diff: '@@\n-first\n+second\n' })
  await editor.createFile({ type: 'create_file', path: 'b/c.txt', diff: '+made\n' })
  assert.match(await session.execCommand({ cmd: 'cat a.txt b/c.txt' }), /\nsecond\nmade\n*$/)
} finally {
  await session.close()
}
console.log('all well')
