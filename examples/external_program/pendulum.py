"""The same as pendulum.c, for machines without a C compiler: pendulum.py RECORD LENGTH MASS FRICTION."""

import json
import math
import sys

GRAVITY, STEP = 9.81, 0.05  # a longer step than in C, as Python is slower; its error is below 1e-4
PRICE_OF_BOB, PRICE_OF_BEARING = 4.0, 0.6  # for 1 kg, and for 1 N m s


def simulate(record, length, mass, friction):
    """Root mean square difference of the angles (rad) from a record of times and angles, and the price."""
    pull, damping = GRAVITY / length, friction / (mass * length * length)

    def acceleration(angle, velocity):
        return -pull * math.sin(angle) - damping * velocity

    (now, angle), velocity, total = record[0], 0.0, 0.0
    for time, recorded in record:
        steps = math.ceil((time - now) / STEP - 1e-9)
        h = (time - now) / max(steps, 1)
        for _ in range(steps):  # the classical Runge-Kutta method
            v1, a1 = velocity, acceleration(angle, velocity)
            v2 = velocity + h / 2 * a1
            a2 = acceleration(angle + h / 2 * v1, v2)
            v3 = velocity + h / 2 * a2
            a3 = acceleration(angle + h / 2 * v2, v3)
            v4 = velocity + h * a3
            a4 = acceleration(angle + h * v3, v4)
            angle += h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
            velocity += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        now = time
        total += (angle - recorded) ** 2
    bob, bearing = PRICE_OF_BOB * mass, PRICE_OF_BEARING / friction
    price = {"bob": bob, "bearing": bearing, "total": bob + bearing}
    return {"misfit": math.sqrt(total / len(record)), "price": price}


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: pendulum.py RECORD LENGTH MASS FRICTION")
    with open(sys.argv[1]) as file:
        record = [tuple(map(float, line.split())) for line in file]
    print(json.dumps(simulate(record, *map(float, sys.argv[2:]))))
