// A rolling deploy: each instance is replaced, one after the other, while clients call all the time.

import { setTimeout as sleep } from 'node:timers/promises'
import { openClient } from './client.js'

const CLIENTS = 6

/** Replaces those that are there, and says how many calls there were meanwhile, and what went wrong. */
export async function deploy(front, instances, start) {
  const load = await begin(front.url)
  for (const [i, older] of [...instances].entries()) {
    const newer = await start('DEF'[i])
    instances.push(newer)
    // As a balancer does: what it has sent there just now is to arrive.
    older.isOut = true
    await sleep(200)
    const code = await older.end('SIGTERM')
    console.log(`  ${older.name} is replaced by ${newer.name}, and has left with exit code ${code}`)
  }
  return load.end()
}

/** Each client calls again as soon as it is answered. */
async function begin(url) {
  const answer = () => 'Yes.'
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, () => openClient(url, { answer }))
  )
  const lost = []
  let calls = 0
  let isOn = true
  const ends = clients.map(async client => {
    while (isOn && lost.length === 0) {
      calls++
      await client.work().catch(error => lost.push(`a call was lost: ${error.message}`))
    }
    await client.close()
  })
  return {
    async end() {
      isOn = false
      await Promise.all(ends)
      return { calls, lost }
    }
  }
}
