// The command `proxy` within this process, on a free port.

import { proxy, type Surroundings } from '../../../lib/proxy/command.js'
import { closeLater } from '../../helpers/close-all.js'
import { Awaitable, gate } from '../../helpers/gate.js'

export interface Run {
  out: Awaitable<string>
  err: Awaitable<string>
  code: Promise<number>
  /** Tells the process to end. */
  stop(): void
}

export function run(args: string[], around: Partial<Surroundings> = {}): Run {
  const out = new Awaitable<string>()
  const err = new Awaitable<string>()
  const stopped = gate()
  const code = proxy(args, {
    out: line => out.push(line),
    err: line => err.push(line),
    version: '1.2.3',
    env: {},
    readFile: () => '{}',
    loadRedis() {
      throw new Error('Cannot find module')
    },
    stopped: () => stopped.opened,
    ...around
  })
  return { out, err, code, stop: () => stopped.open() }
}

export interface Started extends Run {
  /** Of the endpoint: `http://127.0.0.1:<port>/mcp`. */
  url: string
  port: number
}

/** In front of `target`. Stopped by `closeAll`. */
export async function startProxy(
  target: string,
  args: string[] = [],
  around: Partial<Surroundings> = {}
): Promise<Started> {
  const started = run([target, '--port', '0', '--drain', '0', ...args], around)
  closeLater(() => {
    started.stop()
    return started.code
  })
  const [url = ''] = (await started.out.nth(1)).split(' ')
  return { ...started, url, port: Number(new URL(url).port) }
}
