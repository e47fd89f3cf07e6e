// Parts of the middleware that only those load who ask for them: the value of an option, which a
// function of a door of its own makes, carries their code.
import type { Check } from './checks.js'

/** What the function of this name makes. It is for the option alone. */
export interface Part<Name extends string> {
  readonly madeBy: Name
}

/** What `backplane()` and `redisBackplane()` make, for option `backplane`. */
export type BackplanePart = Part<'backplane'>

/** What `ownerCookie()` of `express-mcp-streams/cookie` makes, for option `cookie`. */
export type OwnerCookie = Part<'ownerCookie'>

/** What `resources()` of `express-mcp-streams/resources` makes, for option `resources`. */
export type ResourcesPart = Part<'resources'>

/** What `sessions()` of `express-mcp-streams/sessions` makes, for option `sessions`. */
export type SessionsPart = Part<'sessions'>

/** What `tasks()` of `express-mcp-streams/tasks` makes, for option `tasks`. */
export type TasksPart = Part<'tasks'>

/** For all copies of the package, ESM and CJS. */
const CARRIED = Symbol.for('express-mcp-streams.part')
/** Two copies do not fit together: what one has noted of a response, the other does not know. */
const COPY = {}

interface Carried {
  readonly [CARRIED]?: { readonly copy: object; readonly code: unknown }
}

export function partOf<Name extends string>(madeBy: Name, code: unknown): Part<Name> {
  return Object.freeze({ madeBy, [CARRIED]: { copy: COPY, code } })
}

/** What `partOf` was given; the caller knows its type. */
export function codeOf<Code>(part: Part<string> | undefined): Code | undefined {
  return (part as Carried | undefined)?.[CARRIED]?.code as Code | undefined
}

/** For all copies of the package. The number stands for what they use of it. */
const INSTANCE = Symbol.for('express-mcp-streams.instance/1')

/** Lets a function of another door, which is given the middleware, have what this one owns. */
export function carryInstance(middleware: object, instance: object): void {
  Object.defineProperty(middleware, INSTANCE, { value: instance })
}

/** `undefined`: it is not what `mcpStreams()` returns. The caller knows the type. */
export function instanceOf<Instance>(middleware: unknown): Instance | undefined {
  return (middleware as { [INSTANCE]?: Instance } | null | undefined)?.[INSTANCE]
}

/** @param doors where the function comes from that a part is named by, and others that make it. */
export function isPart(doors: Readonly<Record<string, string>>): Check {
  const names = Object.keys(doors)
  const makers = names.map(name => `\`${name}()\``).join(' or ')
  const imports = names.map(name => `import { ${name} } from '${doors[name]}'`).join(', or ')
  const loaded = Object.values(doors)
    .map(door => `\`${door}\``)
    .join(' or ')
  return value => {
    const { [CARRIED]: carried, madeBy: by } = Object(value) as Carried & Partial<Part<string>>
    if (carried === undefined || by !== names[0])
      return { text: `must be what ${makers} makes: ${imports}` }
    return carried.copy === COPY
      ? undefined
      : { text: `is of another copy of the package: load ${loaded} as you load the middleware` }
  }
}
