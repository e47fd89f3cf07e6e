// The picture of the README: what it shows is a run that its script makes, and it moves by CSS
// alone.

import { describe, expect, it } from '@jest/globals'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { closeLater } from '../../helpers/listen.js'
import { root, runExample } from './run-example.js'

const KEPT =
  'With the middleware: ✔ 40 of 40 steps, the result, 3 cuts, nothing twice, the tool ran once.'

/** Read by who sees no picture. */
const said = (svg: string): string | undefined => /<desc>(.*)<\/desc>/.exec(svg)?.[1]

describe('the picture', () => {
  it('is what its script makes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'picture-'))
    closeLater(() => rm(folder, { recursive: true }))
    const file = join(folder, 'picture.svg')
    expect(await runExample('quick-start/picture.js', { args: [file] })).toMatchObject({ code: 0 })
    const [made, shown] = await Promise.all(
      [file, join(root, 'examples/quick-start/picture.svg')].map(name => readFile(name, 'utf8'))
    )
    for (const svg of [made, shown]) {
      expect(said(svg!)).toContain(KEPT)
      expect(said(svg!)).toMatch(/Without the middleware: ✘ \d+ of 40 steps, and no result/)
    }
  })

  it('has no script, and suits dark pages and who wants no motion', async () => {
    const svg = await readFile(join(root, 'examples/quick-start/picture.svg'), 'utf8')
    expect(svg).not.toMatch(/<script|\son\w+=|href|url\(|<animate/)
    expect(svg).toContain('@media (prefers-color-scheme: dark)')
    expect(svg).toContain('@media (prefers-reduced-motion: reduce)')
  })
})
