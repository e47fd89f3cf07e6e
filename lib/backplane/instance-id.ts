// The first characters of an id that an instance has made are the instance's tag, so that a request
// that names the id can be sent to the right instance without a look-up.

/** Characters of a tag. */
export const TAG_LENGTH = 5
const INSTANCE_ID = /^[\w-]{21}$/

/** The tag of the instance that has made an id. */
export function tagOf(id: string): string {
  return id.slice(0, TAG_LENGTH)
}

/** Whether a name has the form of an id that an instance has made. */
export function isInstanceId(name: string): boolean {
  return INSTANCE_ID.test(name)
}
