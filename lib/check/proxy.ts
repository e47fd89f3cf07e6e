// Guesses from a response's head what stands between the client and the endpoint.

/** Headers that give a proxy away, the most telling first. */
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

/** The proxy's name; `undefined` where nothing gives one away. */
export function proxyOf(head: Headers): string | undefined {
  return SIGNS.find(([name, value]) => value.test(head.get(name) ?? ''))?.[2]
}
