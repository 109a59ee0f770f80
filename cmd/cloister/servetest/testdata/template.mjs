// Templates by E2B's SDK, unchanged: one of the operator's, and one of an image by its digest.
import assert from 'node:assert'
import { Sandbox, Template } from 'e2b'

async function says(name) {
  const s = await Sandbox.create(name, { timeoutMs: 60_000 })
  try {
    return (await s.commands.run('cat /etc/image-says')).stdout
  } finally {
    await s.kill()
  }
}

assert.equal(await says('env'), 'image')
assert.equal(await Template.exists('mine'), false)
const built = await Template.build(Template().fromImage(process.env.IMAGE), 'mine')
assert(built.templateId)
assert.equal(await Template.exists('mine'), true)
assert.equal(await says('mine'), 'image')
await assert.rejects(Template.build(Template().fromImage(process.env.IMAGE).runCmd('true'), 'steps'), /steps: cloister serve builds no images/)
await assert.rejects(Template.build(Template().fromImage('debian:12'), 'tag'), /by its digest/)
console.log('all well')
