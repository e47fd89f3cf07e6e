// The entry point `express-mcp-streams/resources`: sends resources as bytes.
// So that what it shares with the middleware is built as one file: each takes heap of its own.
import '../index.js'
import { type ResourcesPart, partOf } from '../options/part.js'
import type { FeatureCode } from '../endpoint/feature.js'
import { ResourceAnswers } from './resource-answers.js'
import { resourceSettings } from './resource-options.js'
import type { ResourcesOptions } from './resource-types.js'

export type { ResourcesPart } from '../options/part.js'
export { fileResources, type FileResources, type FileResourcesOptions } from './file-resources.js'
export { readThrough } from './read-through.js'
export {
  NOT_STREAMABLE,
  type IsStreamable,
  type OpenedResource,
  type OpenResource,
  type Resource,
  type ResourceBytes,
  type ResourceContext,
  type ResourceEntry,
  type ResourcesOptions
} from './resource-types.js'

/**
 * Answers `resources/stream` (SEP-2532) and requests for download URLs: what `open` returns is sent
 * as bytes. For option `resources` of `mcpStreams`. Also `resources(fileResources(root, { baseUri
 * }))` and `resources(readThrough())`.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function resources(options: ResourcesOptions): ResourcesPart {
  const settings = resourceSettings(options)
  const code: FeatureCode = (parts, { maxEntries }) =>
    new ResourceAnswers(settings, parts, maxEntries)
  return partOf('resources', code)
}
