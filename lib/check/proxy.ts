// Guesses from the headers of a response which proxy stands in front of the endpoint.

/** Headers that identify a proxy, the most specific first. */
const SIGNS: readonly (readonly [name: string, value: RegExp, proxy: string])[] = [
  ['cf-ray', /./, 'Cloudflare'],
  ['x-amz-cf-id', /./, 'Amazon CloudFront'],
  ['x-amz-apigw-id', /./, 'Amazon API Gateway'],
  ['x-azure-ref', /./, 'Azure Front Door'],
  ['x-vercel-id', /./, 'Vercel'],
  ['fly-request-id', /./, 'Fly.io'],
  ['x-railway-request-id', /./, 'Railway'],
  ['x-render-origin-server', /./, 'Render'],
  ['x-served-by', /^cache-/, 'Fastly'],
  ['server', /^nginx/i, 'nginx'],
  ['server', /^openresty/i, 'OpenResty (nginx)'],
  ['server', /^awselb/i, 'an AWS load balancer'],
  ['server', /^caddy/i, 'Caddy'],
  ['server', /^envoy/i, 'Envoy'],
  ['server', /^apache/i, 'Apache'],
  ['via', /\bcaddy\b/i, 'Caddy'],
  ['via', /\bvarnish\b/i, 'Varnish'],
  ['via', /\bheroku-router\b|\bvegur\b/i, 'Heroku'],
  ['via', /\bgoogle\b/i, 'a Google load balancer'],
  ['x-envoy-upstream-service-time', /./, 'Envoy'],
  ['via', /./, 'a proxy that calls itself by "Via"']
]

/** The name of the proxy; `undefined` if no header identifies one. */
export function proxyOf(head: Headers): string | undefined {
  return SIGNS.find(([name, value]) => value.test(head.get(name) ?? ''))?.[2]
}
