// What the functions that call by a client are given by their callers, checked before it is used.

/** @throws {TypeError} naming the function and the argument that is not what it must be. */
export function checkCall(
  name: string,
  [client, request, options]: readonly [unknown, unknown, unknown],
  member: string
): void {
  if (typeof (client as { request?: unknown } | null | undefined)?.request !== 'function')
    throw new TypeError(`${name}: \`client\` must be a client of the SDK, connected`)
  if (typeof (request as Record<string, unknown> | null | undefined)?.[member] !== 'string')
    throw new TypeError(`${name}: \`request\` must be an object with a string \`${member}\``)
  checkOptions(name, options)
}

/** @throws {TypeError} where options are no object. */
export function checkOptions(name: string, options: unknown): void {
  if (options !== undefined && (typeof options !== 'object' || options === null))
    throw new TypeError(`${name}: options must be an object`)
}
