// The URL that a download is fetched from: the endpoint's own, with one parameter.

import { LONGEST_FIELD } from '../protocol/fields.js'

const PARAMETER = 'download'

/** Made from what the operator says of the endpoint, never from a request. */
export function downloadUrl(publicUrl: string, id: string): string {
  const url = new URL(publicUrl)
  url.searchParams.append(PARAMETER, id)
  return url.href
}

/** The form of the ids that we give out. */
const DOWNLOAD_ID = /^[\w-]{21}$/

/**
 * The values of the download parameter in a request's URL; empty if none of them has the form of
 * our ids, because then the parameter is the application's.
 */
export function downloadNames(requestUrl: string): string[] {
  const mark = requestUrl.indexOf('?')
  const names =
    mark < 0 || requestUrl.length > LONGEST_FIELD
      ? []
      : new URLSearchParams(requestUrl.slice(mark + 1)).getAll(PARAMETER)
  return names.some(name => DOWNLOAD_ID.test(name)) ? names : []
}

/** A request's URL as it is without a download. */
export function withoutDownload(requestUrl: string): string {
  const mark = requestUrl.indexOf('?')
  if (mark < 0) return requestUrl
  const parts = requestUrl
    .slice(mark + 1)
    .split('&')
    .filter(part => !new URLSearchParams(part).has(PARAMETER))
  return requestUrl.slice(0, mark) + (parts.length === 0 ? '' : `?${parts.join('&')}`)
}
