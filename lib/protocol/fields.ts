/**
 * Characters that a list in a head, or a query, may have for us to look into it. Node takes no
 * longer heads, unless it is told to, and nobody needs as many. What has more is as if it were not
 * there.
 */
export const LONGEST_FIELD = 16 * 1024
