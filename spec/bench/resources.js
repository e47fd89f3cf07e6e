// (g) Resources as bytes: how fast against what else could send them, and the memory of a server
// whose clients are slow.

import { createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { bytesFrom } from './resource-bytes.js'
import { start } from './processes.js'
import { ratios, runRound, takeTurns, withServers } from './rounds.js'
import { printNote, printRow, printTitle } from './table.js'

const MIB = 2 ** 20
const GIB = 2 ** 30
const SERVER = 'resources-server.js'
const FILE = 'large.bin'

export async function measureResources({ rounds, quick, only }) {
  const load = await start('resources-load.js')
  const folder = await mkdtemp(join(tmpdir(), 'bench-'))
  const isWanted = name => name.includes(only)
  try {
    await compareSpeed({ load, folder, rounds, isWanted, size: (quick ? 32 : 256) * MIB })
    await compareToRead({ load, rounds, isWanted, size: (quick ? 16 : 64) * MIB })
    if (isWanted('slow clients')) await watchSlowClients({ load, size: quick ? 64 * MIB : 2 * GIB })
    if (isWanted('first byte')) await seeFirstByte({ load, rounds })
  } finally {
    await load.stop()
    await rm(folder, { recursive: true })
  }
}

/** Against what the machine and Express can do. */
async function compareSpeed({ load, folder, rounds, isWanted, size }) {
  printTitle('(g) resources/stream, as a ratio to what else could send the bytes', ['speed', 'CPU'])
  const MiB = `${size / MIB} MiB`
  const kinds = [
    {
      name: `${MiB} of a file, to express.static`,
      bare: { variant: 'static', folder, what: { target: `/static/${FILE}` } },
      ours: { variant: 'ours', folder, what: { uri: `file:///${FILE}` } },
      goal: { atLeast: 1.5 }
    },
    {
      name: `${MiB} of a provider's stream, to a raw pipe`,
      bare: { variant: 'pipe', what: { target: `/pipe/${size}` } },
      ours: { variant: 'ours', what: { uri: `bytes:${size}` } },
      goal: { atLeast: 1 }
    }
  ]
  for (const { name, bare, ours, goal } of kinds) {
    if (!isWanted(name)) continue
    if (bare.folder) await pipeline(bytesFrom(0, size), createWriteStream(join(folder, FILE)))
    const download = ({ what, ...server }) =>
      runRound(server, load, 'download', { ...what, size, times: 1 })
    await withServers(
      [bare, ours],
      async servers => {
        for (const server of servers) for (let i = 0; i < 2; i++) await download(server)
        const [theirs, mine] = await takeTurns(servers, rounds, download)
        printRow(
          name,
          { of: ratios(mine, theirs, round => 1 / round.result), ...goal },
          { of: ratios(mine, theirs, round => round.cpu) }
        )
      },
      SERVER
    )
  }
}

/** Against `resources/read`: base64 in JSON, by the official server to the official client. */
async function compareToRead({ load, rounds, isWanted, size }) {
  const name = `${size / MIB} MiB, to resources/read`
  if (!isWanted(name)) return
  printTitle('(g) resources/stream and the SDK, each with a client', ['ratio'])
  const took = { read: [], stream: [] }
  const grown = { read: [], stream: [] }
  for (let round = 0; round < rounds; round++) {
    // A process of its own each time: what it has once taken for a resource, it keeps.
    for (const [how, variant] of [
      ['read', 'sdk'],
      ['stream', 'ours']
    ]) {
      const bring = (server, size) =>
        load.call('byClient', { port: server.port, how, uri: `bytes:${size}`, size })
      await withServers(
        [{ variant }],
        async ([server]) => {
          for (let i = 0; i < 3; i++) await bring(server, MIB)
          await server.call('watchMemory')
          took[how].push(await bring(server, size))
          grown[how].push((await server.call('memoryGrowth')) / MIB)
        },
        SERVER
      )
    }
  }
  printRow(`${name}: speed`, { of: took.read.map((each, i) => each / took.stream[i]), atLeast: 10 })
  printRow('resources/read: growth of the server, to the size', {
    of: grown.read.map(each => (each * MIB) / size)
  })
  printRow('resources/stream: growth of the server, MiB', { of: grown.stream, atMost: 16 })
}

/** One client at 20 MB/s for the whole of it, and 50 at a fortieth of that meanwhile. */
async function watchSlowClients({ load, size }) {
  const name = size >= GIB ? `${size / GIB} GiB` : `${size / MIB} MiB`
  printTitle(`(g) ${name} to slow clients: growth of the server, MiB`, ['RSS'])
  const grown = {}
  for (const slow of [0, 50]) {
    await withServers(
      [{ variant: 'ours' }],
      async ([server]) => {
        const params = { port: server.port, uri: `bytes:${size}`, rate: 20e6, slowRate: 5e5, slow }
        await load.call('download', { ...params, times: 1, size: MIB, uri: `bytes:${MIB}` })
        await server.call('watchMemory')
        const seconds = await load.call('downloadSlowly', { ...params, size })
        grown[slow] = (await server.call('memoryGrowth')) / MIB
        if (slow === 0 && seconds < size / 22e6) throw new Error(`Not slow: ${seconds} s`)
        while ((await server.call('connections')) > 0) await sleep(10)
      },
      SERVER
    )
  }
  printRow('one client at 20 MB/s', { of: [grown[0]], atMost: 32 })
  printRow('and 50 at 0.5 MB/s beside it', { of: [grown[50]], atMost: 32 })
}

/** The source makes its second chunk only when it is told to. */
async function seeFirstByte({ load, rounds }) {
  const times = []
  await withServers(
    [{ variant: 'ours' }],
    async ([server]) => {
      for (let round = 0; round < rounds; round++) {
        times.push(await load.call('firstByte', { port: server.port, uri: 'slow:1' }))
        await server.call('release')
      }
    },
    SERVER
  )
  printNote(
    `first byte before the second chunk of its source: ${times.map(each => each.toFixed(1)).join(', ')} ms`
  )
}
