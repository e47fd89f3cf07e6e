// Several instances: three processes behind a round robin, each of them replaced under load; then a
// call that asks a question, and a wire that is cut ten times; one instance is drained meanwhile,
// and one is killed.
//
//   npm run cluster
//
// instance.js an MCP server as you would write it, and the lines that make it one of several: read
// this first
//   client.js      the official client
//   front.js       the round robin, and the scissors
// index.js tells the story; exit code 1 if anything is lost that should not be
//   deploy.js      each instance replaced, one after the other, and clients that call meanwhile
//   instances.js   processes: begun, told to leave, killed
//   redis.js       a Redis of one's own
//   children.js    none of them is left behind
//   options.js     the command line

import { randomUUID } from 'node:crypto'
import { exitOnSignals } from './children.js'
import { openClient } from './client.js'
import { deploy } from './deploy.js'
import { roundRobin } from './front.js'
import { startInstance } from './instances.js'
import { readOptions } from './options.js'
import { startRedis } from './redis.js'

const CUTS = 10
/** Steps of the first call. */
const DRAINED_AT = 5
const SECOND_AT = 11
/** Step of the second call: it is at work, and far from its end. */
const KILLED_AT = 1
/** Within which who waits for an instance that was killed is told: the lease and a look. */
const TOLD_WITHIN = 12_000

if (readOptions()) await main()

async function main() {
  exitOnSignals()
  const redis = await startRedis()
  if (redis === undefined) {
    console.error(
      'There is no redis-server here, nor valkey-server: install one (apt install redis-server,\n' +
        'brew install redis), or name one by the environment variable REDIS_SERVER.'
    )
    process.exitCode = 1
    return
  }
  const settings = { redis: redis.url, secret: randomUUID() }
  const instances = await Promise.all(['A', 'B', 'C'].map(name => startInstance(name, settings)))
  const front = await roundRobin(instances)
  try {
    console.log('Three instances and a round robin. Each instance is replaced under load.\n')
    const { calls, lost } = await deploy(front, instances, name => startInstance(name, settings))
    tell(`${calls} calls of six clients, lost: ${lost.length}\n`)
    console.log('Two calls. The wire is cut ten times.\n')
    report([...lost, ...(await story(front, instances))])
  } catch (error) {
    report([error.message])
  }
  front.close()
  // Those that are left.
  await Promise.all(instances.map(instance => instance.isOut || instance.end('SIGKILL')))
  redis.close()
}

/** What has gone wrong. */
async function story(front, instances) {
  let asked = 0
  const answer = question => {
    asked++
    tell(`?  ${question}  Yes, do.`)
    return 'Yes, do.'
  }
  const called = name => instances.find(one => one.name === name)
  const first = await openClient(front.url, { answer })
  const second = await openElsewhere(front.url, first.instance)
  const drained = called(first.instance)
  const killed = called(second.instance)
  tell(`The first call runs at ${drained.name}, the second one at ${killed.name}`)

  let cuts = 0
  let exited
  let killedAt
  let lost
  const seen = []
  const kill = step => {
    if (step !== KILLED_AT) return
    tell(`✝  ${killed.name} is killed, and its call with it`)
    killedAt = Date.now()
    void killed.end('SIGKILL')
  }
  const result = await first.count(step => {
    seen.push(step)
    if (step === DRAINED_AT) {
      tell(`↓  ${drained.name} is told to leave: its call runs on, the others relay it`)
      exited = drained.end('SIGTERM')
    }
    if (step === SECOND_AT)
      lost = second.count(kill).then(
        () => undefined,
        error => ({ error, after: Date.now() - killedAt })
      )
    if (step % 2 === 0 && cuts < CUTS && front.cut() > 0)
      tell(`✂  at step ${step} (cut ${++cuts} of ${CUTS})`)
  })
  tell(`The first call: "${result}"`)
  const exitCode = await exited
  tell(`${drained.name} has left, with exit code ${exitCode}`)
  const told = await lost
  tell(`The second call, ${told?.after} ms after the kill: ${told?.error.message ?? 'a result'}`)
  await Promise.all([first.close(), second.close()])

  const begun = instances.reduce((sum, one) => sum + one.begun, 0)
  return [
    cuts !== CUTS && `the wire was cut ${cuts} times`,
    seen.some((step, i) => step !== i + 1) && `steps came as ${seen}`,
    seen.length !== 20 && `${seen.length} steps came`,
    asked !== 1 && `the question came ${asked} times`,
    begun !== 2 && `two calls were begun ${begun} times`,
    exitCode !== 0 && `${drained.name} has left with exit code ${exitCode}`,
    told?.error.data?.reason !== 'owner-gone' && 'the second call has no `owner-gone`',
    told?.after > TOLD_WITHIN && `the second call was told after ${told.after} ms`
  ].filter(Boolean)
}

/** A client whose session another instance has: the end of one is not to be the other's. */
async function openElsewhere(url, taken) {
  const answer = () => 'Yes.'
  for (let more = 1; ; more++) {
    const client = await openClient(url, { answer })
    if (client.instance !== taken) return client
    await client.close()
    // A client takes three turns, or two where it is closed before it listens: with one more, or
    // with two the next time, another one begins elsewhere.
    for (let turn = 0; turn < more; turn++) await fetch(new URL('/ready', url))
  }
}

function report(faults) {
  const lost = 'lost: nothing of the first call; the second one, with an explicit error'
  console.log(faults.length > 0 ? `\n✘ ${faults.join('; ')}` : `\n✔ ${lost}`)
  process.exitCode = faults.length > 0 ? 1 : 0
}

function tell(line) {
  console.log(`  ${line}`)
}
