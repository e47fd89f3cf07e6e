// The ids that instances make say which instance they are of.

/** Characters of an id that say so. */
export const TAG_LENGTH = 5
const INSTANCE_ID = /^[\w-]{21}$/

/** The instance that an id of ours is of. */
export function tagOf(id: string): string {
  return id.slice(0, TAG_LENGTH)
}

/** Whether a name has the form of an id that an instance has made. */
export function isInstanceId(name: string): boolean {
  return INSTANCE_ID.test(name)
}
