// A key and a certificate for one run, made by Node alone: the specs of TLS want no files and no
// tools.

import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/** A certificate that signs itself, as DER wants it (RFC 5280, 4.1). */
export function selfSigned(): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const der = (tag: number, ...parts: Buffer[]): Buffer => {
    const content = Buffer.concat(parts)
    const { length } = content
    const size =
      length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
    return Buffer.concat([Buffer.from([tag, ...size]), content])
  }
  const hex = (text: string): Buffer => Buffer.from(text, 'hex')
  const ecdsaWithSha256 = der(0x30, der(0x06, hex('2a8648ce3d040302')))
  const name = der(
    0x30,
    der(0x31, der(0x30, der(0x06, hex('550403')), der(0x0c, Buffer.from('localhost'))))
  )
  const time = (year: string): Buffer => der(0x17, Buffer.from(`${year}0101000000Z`))
  const facts = der(
    0x30,
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    ...[name, der(0x30, time('20'), time('49')), name],
    publicKey.export({ type: 'spki', format: 'der' })
  )
  const signature = der(0x03, Buffer.from([0]), sign('sha256', facts, privateKey))
  const pem = der(0x30, facts, ecdsaWithSha256, signature)
    .toString('base64')
    .match(/.{1,64}/g)!
    .join('\n')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${pem}\n-----END CERTIFICATE-----\n`
  }
}
