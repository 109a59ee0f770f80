// What a program does with E2B's SDK, unchanged.
import assert from 'node:assert'
import { Sandbox } from 'e2b'

const s = await Sandbox.create({ timeoutMs: 120_000, metadata: { from: 'cloister' } })
try {
  const r = await s.commands.run('echo out; echo err >&2; id -un; pwd')
  assert.equal(r.stdout, 'out\nuser\n/home/user\n')
  assert.equal(r.stderr, 'err\n')
  await assert.rejects(s.commands.run('exit 3'), e => e.exitCode === 3)

  await s.files.write('a/b.txt', 'content')
  assert.equal(await s.files.read('a/b.txt'), 'content')
  assert.deepEqual((await s.files.list('a')).map(e => e.path), ['/home/user/a/b.txt'])
  assert.equal(await s.files.exists('nothing'), false)

  const seen = []
  const watch = await s.files.watchDir('a', e => { seen.push(e.name) })
  await s.files.rename('a/b.txt', 'a/c.txt')
  for (let i = 0; i < 200 && !seen.includes('c.txt'); i++) await new Promise(f => setTimeout(f, 20))
  await watch.stop()
  assert(seen.includes('c.txt'), seen.join())

  const cat = await s.commands.run('cat', { background: true, stdin: true })
  await s.commands.sendStdin(cat.pid, 'typed\n')
  await s.commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout, 'typed\n')

  let screen = ''
  const terminal = await s.pty.create({ cols: 80, rows: 24, onData: d => { screen += Buffer.from(d).toString() } })
  await s.pty.sendInput(terminal.pid, Buffer.from('stty size; exit\n'))
  await terminal.wait()
  assert(screen.includes('24 80'), screen)

  await s.updateNetwork({ denyOut: ['192.0.2.0/24'], allowOut: ['192.0.2.7'] })
  assert.deepEqual((await s.getInfo()).network.denyOut, ['192.0.2.0/24'])
  await s.updateNetwork({})

  assert.equal((await s.getInfo()).metadata.from, 'cloister')
  assert((await Sandbox.list().nextItems()).some(i => i.sandboxId === s.sandboxId))
} finally {
  assert.equal(await s.kill(), true)
}
assert.equal(await s.isRunning(), false)
console.log('all well')
