// Where an event stream that is passed on unread can go on with an event of ours.

/** Characters of the end of what was written that are looked at. */
const TAIL = 1024

/** Whether an event stream can go on with a new event: behind a blank line, and comments. */
export function isAtEnd(bytes: Uint8Array, wasAtEnd: boolean): boolean {
  const tail = Buffer.from(bytes.subarray(-TAIL)).toString('latin1')
  const blank = tail.lastIndexOf('\n\n')
  const rest = blank < 0 ? tail : tail.slice(blank + 2)
  const isWhole = blank >= 0 || (wasAtEnd && bytes.length <= TAIL)
  return isWhole && /^(?::[^\r\n]*\n)*$/.test(rest)
}
