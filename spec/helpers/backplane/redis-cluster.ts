// Three Redis servers that are a cluster.
import { until } from '../happenings.js'
import { startRedis, type RedisServer } from './redis-server.js'

const SLOTS = 16_384
const OPTIONS = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000']

/** Closed by `closeAll`. */
export async function startRedisCluster(): Promise<readonly RedisServer[]> {
  const nodes = await Promise.all([0, 1, 2].map(() => startRedis(...OPTIONS)))
  const share = Math.ceil(SLOTS / nodes.length)
  for (const [i, node] of nodes.entries()) {
    const last = Math.min((i + 1) * share, SLOTS) - 1
    await node.command('CLUSTER', 'ADDSLOTSRANGE', `${i * share}`, `${last}`)
  }
  const [first, ...others] = nodes as [RedisServer, ...RedisServer[]]
  for (const { port } of others) await first.command('CLUSTER', 'MEET', '127.0.0.1', `${port}`)
  for (const node of nodes)
    await until(async () => {
      const [info, all] = (await Promise.all([
        node.command('CLUSTER', 'INFO'),
        node.command('CLUSTER', 'NODES')
      ])) as [string, string]
      const isWhole = info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:3')
      return isWhole && !all.includes('handshake')
    })
  return nodes
}
