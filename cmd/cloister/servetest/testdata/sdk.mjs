// What a program does with E2B's SDK, unchanged: on a laptop, and on a cluster.
import assert from 'node:assert'
import { Sandbox } from 'e2b'

const s = await Sandbox.create({ timeoutMs: 120_000, metadata: { from: 'cloister' } })
try {
  const r = await s.commands.run('echo out; echo err >&2; id -un; pwd')
  assert.equal(r.stdout, 'out\nuser\n/home/user\n')
  assert.equal(r.stderr, 'err\n')
  await assert.rejects(s.commands.run('exit 3'), e => e.exitCode === 3)
  await assert.rejects(s.commands.run('sleep 60', { timeoutMs: 1000 }), /deadline|timeout/i)

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
  const [used] = await s.getMetrics()
  assert(used.cpuCount > 0 && used.memTotal > used.memUsed && used.memUsed > 0 && used.diskTotal > 0, JSON.stringify(used))

  // A port, by its name, or where a server has none by the SDK's own headers.
  const server = await s.commands.run('cd a; command -v python3 && exec python3 -m http.server 3000; exec busybox httpd -f -p 3000',
    { background: true })
  const url = process.env.E2B_SANDBOX_URL
  const page = () => url
    ? fetch(url + '/c.txt', { headers: { 'E2b-Sandbox-Id': s.sandboxId, 'E2b-Sandbox-Port': '3000' } })
    : fetch(`https://${s.getHost(3000)}/c.txt`)
  let answer = await page()
  for (let i = 0; i < 100 && answer.status !== 200; i++) {
    await answer.text()
    await new Promise(f => setTimeout(f, 100))
    answer = await page()
  }
  assert.equal(await answer.text(), 'content')
  await server.kill()

  // Copies: the files, and nothing that runs.
  const copy = await Sandbox.create((await s.createSnapshot()).snapshotId, { timeoutMs: 60_000 })
  assert.equal(await copy.files.read('a/c.txt'), 'content')
  await copy.setTimeout(1000)
  for (let i = 0; i < 200 && await copy.isRunning(); i++) await new Promise(f => setTimeout(f, 100))
  assert.equal(await copy.isRunning(), false)

  // A pause. Where the memory cannot be kept the refusal says so, and the files can.
  try {
    assert.equal(await s.pause(), true)
  } catch (e) {
    assert.match(e.message, /--isolation \w+ cannot keep the memory/)
    assert.equal(await s.isRunning(), true)
    assert.equal(await s.pause({ keepMemory: false }), true)
  }
  assert.equal(await s.isRunning(), false)
  await s.connect({ timeoutMs: 120_000 })
  assert.equal(await s.files.read('a/c.txt'), 'content')
  assert.equal((await s.commands.run('cat a/c.txt')).stdout, 'content')
} finally {
  assert.equal(await s.kill(), true)
}
assert.equal(await s.isRunning(), false)
console.log('all well')
