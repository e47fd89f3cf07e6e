/** Whether a host name, as `URL` writes it, is that of this machine. */
export function isLoopbackName(hostname: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname)
}
