// What header fields have in common.

/**
 * Characters of a header field or a query that are parsed at most; a longer one is ignored. Node
 * accepts no larger heads by default.
 */
export const LONGEST_FIELD = 16 * 1024
