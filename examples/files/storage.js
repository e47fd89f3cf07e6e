// A second server, as a cloud storage would be: it knows nothing of MCP and nobody's credentials,
// only signed URLs that run out.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import express from 'express'

const FIVE_MINUTES = 300_000

const signature = (secret, path, expires) =>
  createHmac('sha256', secret).update(`${expires} ${path}`).digest('base64url')

/** Makes URLs of the storage at `url` for paths below its folder, percent-encoded. */
export function signer({ url, secret }) {
  return path => {
    const expires = Date.now() + FIVE_MINUTES
    return `${url}/${path}?expires=${expires}&signature=${signature(secret, path, expires)}`
  }
}

export function createStorage({ folder, secret }) {
  const app = express()
  app.get('/{*path}', async (req, res) => {
    const { expires, signature: given = '' } = req.query
    const path = req.path.slice(1)
    const expected = Buffer.from(signature(secret, path, expires))
    const isSigned =
      expected.length === given.length && timingSafeEqual(expected, Buffer.from(given))
    if (!isSigned || !(Number(expires) > Date.now()))
      return res.status(403).send('This URL is not signed, or ran out')
    const file = join(folder, decodeURIComponent(path))
    const { size, mtimeMs } = await stat(file)
    // A strong tag: with it a transfer that broke can go on where it was.
    res.set('ETag', `"${size.toString(16)}-${Math.floor(mtimeMs).toString(16)}"`)
    res.attachment(file).sendFile(file)
  })
  return app
}
