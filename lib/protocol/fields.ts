// Fields of heads.

/**
 * Characters that a list in a head, or a query, may have for us to look into it. Node takes no
 * longer heads, unless it is told to, and nobody needs as many. What has more is as if it were not
 * there.
 */
export const LONGEST_FIELD = 16 * 1024

/** Not `application/json-patch+json` and its like, which are types of their own. */
export function isJsonType(contentType: string): boolean {
  return /^\s*application\/json\s*(?:;|$)/i.test(contentType)
}
