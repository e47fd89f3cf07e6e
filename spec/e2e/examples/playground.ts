// Starts the playground as its visitor does.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { closeLater } from '../../helpers/listen.js'

export const root = fileURLToPath(new URL('../../..', import.meta.url))

export interface Playground {
  url: string
  child: ChildProcess
  close(): Promise<void>
}

/** Starts the playground, with steps of 250 ms, and waits for its URL. */
export async function play(
  args: string[] = ['--pace', '250'],
  env = {},
  script = 'playground'
): Promise<Playground> {
  const child = spawn(
    process.execPath,
    [`examples/${script.includes('.') ? script : `${script}/index.js`}`, ...args],
    {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_OPTIONS: '', PORT: '', ...env }
    }
  )
  const close = closeLater(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill()
    await exited
  })
  const [line] = (await once(child.stdout!, 'data')) as [Buffer]
  return { url: /http:\S+/.exec(`${line}`)![0], child, close }
}
