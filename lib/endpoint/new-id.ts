// Ids that nobody can guess, as plain strings.
import { random, urlAlphabet } from 'nanoid'

/** Characters, six random bits each. */
const LENGTH = 21

const codes = Buffer.from(urlAlphabet, 'latin1')
const characters = Buffer.allocUnsafeSlow(LENGTH)

/**
 * What `nanoid()` makes, at once: it adds one character after the other, and V8 keeps each of these
 * strings for as long as the last one.
 */
export function newId(): string {
  const bytes = random(LENGTH)
  for (let i = 0; i < LENGTH; i++) characters[i] = codes[(bytes[i] as number) & 63] as number
  return characters.toString('latin1')
}
