// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of the lab, the same as in harness/metrics (fluid_interference, overlap, bucket_curve, bus_bandwidth,
// fluid_queue, queueing), and held to it number by number. Pure. Times are seconds, sizes bytes, rates work units a second.

// ---- overlap --------------------------------------------------------------------------------------------------------

// Two that start together: while both run each is slowed, then the survivor goes on at full rate. When each ends.
export function fluidSpans(compute, comm, slowCompute, slowComm) {
  const computeSlowed = compute * slowCompute;
  const commSlowed = comm * slowComm;
  if (computeSlowed <= commSlowed) {
    return { compute: computeSlowed, comm: comm + computeSlowed * (1 - 1 / slowComm) };
  }
  return { compute: compute + commSlowed * (1 - 1 / slowCompute), comm: commSlowed };
}

// Of the communication the part `beside` may run beside compute from its start, the rest only after both.
export function timeline({ compute, comm, beside, slowCompute, slowComm }) {
  const spans = fluidSpans(compute, comm * beside, slowCompute, slowComm);
  const restStart = Math.max(spans.compute, spans.comm);
  const step = restStart + comm * (1 - beside);
  const ideal = Math.max(compute, comm);
  const overlap = compute + comm - step;
  return {
    computeEnd: spans.compute,
    besideEnd: spans.comm,
    restStart,
    step,
    ideal,
    serial: compute + comm,
    bound: (compute + comm) / ideal,
    overlap,
    exposed: step - compute,
    hiddenShare: overlap / Math.min(compute, comm),
    hiddenFraction: overlap / comm,
    speedup: (compute + comm) / step,
    pays: overlapPays(slowCompute, slowComm),
  };
}

// Running together beats running in turn if and only if both rates add up to more than one.
export function overlapPays(slowCompute, slowComm) {
  const rates = 1 / slowCompute + 1 / slowComm;
  if (Math.abs(rates - 1) < 1e-12) return "tie";
  return rates > 1 ? "yes" : "no";
}

// ---- gradient buckets -----------------------------------------------------------------------------------------------

// What an all_reduce of so many bytes puts on each link, over the link's speed: no latency.
export function wireTime(bytes, ranks, bandwidth) {
  return (bytes / bandwidth) * ((2 * (ranks - 1)) / ranks);
}

export function bucketCount(total, bucket) {
  return Math.floor((total - 1) / bucket) + 1;
}

// When each bucket starts and ends: gradients come out evenly over the backward pass, a bucket is sent when its last one
// is there, one bucket at a time.
export function bucketSpans({ backward, wire, latency }, buckets) {
  const cost = latency + wire / buckets;
  const spans = [];
  let end = 0;
  for (let k = 1; k <= buckets; ++k) {
    const ready = (backward * k) / buckets;
    const start = Math.max(end, ready);
    end = start + cost;
    spans.push({ ready, start, end });
  }
  return spans;
}

export function exposedTime({ backward, wire, latency }, buckets) {
  return Math.max(latency + wire / buckets, buckets * latency + wire - backward * (1 - 1 / buckets));
}

// The bottom of the U where the number of buckets need not be whole.
export function bottomOfCurve({ backward, wire, latency }) {
  return Math.max(1, (backward - wire) / latency, Math.sqrt(backward / latency));
}

export function bestBucketCount(curve) {
  const below = Math.floor(bottomOfCurve(curve));
  return exposedTime(curve, below) <= exposedTime(curve, below + 1) ? below : below + 1;
}

// ---- queues ---------------------------------------------------------------------------------------------------------

export function growthRate({ arrival, service }) {
  return arrival - service;
}

// From when on the queue is and stays empty.
export function drainTime(queue) {
  if (queue.arrival > queue.service) return Infinity;
  if (queue.initial === 0) return 0;
  return queue.arrival === queue.service ? Infinity : queue.initial / (queue.service - queue.arrival);
}

export function backlogAt(queue, time) {
  if (time >= drainTime(queue)) return 0;
  return Math.max(0, queue.initial + growthRate(queue) * time);
}

export function outputRate(queue, time) {
  return backlogAt(queue, time) > 0 ? queue.service : Math.min(queue.arrival, queue.service);
}

export const MM1_ASSUMPTIONS =
  "Poisson arrivals; exponential service times; one server, first come first served; room for any backlog; " +
  "steady state; utilization below 1";
export const MD1_ASSUMPTIONS =
  "Poisson arrivals; every service takes equally long; one server, first come first served; room for any backlog; " +
  "steady state; utilization below 1";

// Means in the steady state, or null where there are none: at full load the backlog grows without end.
export function mm1({ arrival, service }) {
  const rho = arrival / service;
  return rho >= 1 ? null : fromQueue((rho * rho) / (1 - rho), rho / (service - arrival), rho, service);
}

export function md1({ arrival, service }) {
  const rho = arrival / service;
  if (rho >= 1) return null;
  const inQueue = (rho * rho) / (2 * (1 - rho));
  return fromQueue(inQueue, inQueue / arrival, rho, service);
}

function fromQueue(inQueue, timeInQueue, rho, service) {
  return { inSystem: inQueue + rho, timeInSystem: timeInQueue + 1 / service, inQueue, timeInQueue };
}
