/*
 * A damped pendulum: how well does it swing like a recorded one, and what does it cost?
 *
 *     m l^2 theta'' = -m g l sin(theta) - c theta'
 *
 * usage: pendulum RECORD LENGTH MASS FRICTION
 *
 * RECORD has lines "time angle" (s, rad), the first one at rest. Prints a JSON object: the root mean square difference
 * of the angles (rad), and the price of the bob, by its mass, and of the bearing, which is dearer with less friction.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double gravity = 9.81, step = 0.01;
static const double price_of_bob = 4.0, price_of_bearing = 0.6; /* for 1 kg, and for 1 N m s */

typedef struct { double angle, velocity; } state;

static state rate(state s, double length, double mass, double friction)
{
    double damping = friction / (mass * length * length);
    return (state){s.velocity, -gravity / length * sin(s.angle) - damping * s.velocity};
}

static state plus(state s, double h, state k)
{
    return (state){s.angle + h * k.angle, s.velocity + h * k.velocity};
}

/* One step of the classical Runge-Kutta method. */
static state advance(state s, double h, double length, double mass, double friction)
{
    state k1 = rate(s, length, mass, friction);
    state k2 = rate(plus(s, h / 2, k1), length, mass, friction);
    state k3 = rate(plus(s, h / 2, k2), length, mass, friction);
    state k4 = rate(plus(s, h, k3), length, mass, friction);
    return plus(plus(plus(plus(s, h / 6, k1), h / 3, k2), h / 3, k3), h / 6, k4);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: pendulum RECORD LENGTH MASS FRICTION\n");
        return 2;
    }
    double length = atof(argv[2]), mass = atof(argv[3]), friction = atof(argv[4]);
    if (!(length > 0 && mass > 0 && friction >= 0)) {
        fprintf(stderr, "pendulum: length and mass must be positive, friction must not be negative\n");
        return 2;
    }
    FILE *record = fopen(argv[1], "r");
    if (!record) {
        perror(argv[1]);
        return 1;
    }
    double time, angle, now = 0, sum = 0;
    int count = 0;
    state s = {0, 0};
    while (fscanf(record, "%lf %lf", &time, &angle) == 2) {
        if (count++ == 0) {
            s.angle = angle;
            now = time;
        }
        int steps = (int)ceil((time - now) / step - 1e-9);
        for (int i = 0; i < steps; i++)
            s = advance(s, (time - now) / steps, length, mass, friction);
        now = time;
        sum += (s.angle - angle) * (s.angle - angle);
    }
    fclose(record);
    if (count < 2) {
        fprintf(stderr, "pendulum: %s has no lines \"time angle\"\n", argv[1]);
        return 1;
    }
    double bob = price_of_bob * mass, bearing = price_of_bearing / friction;
    printf("{\"misfit\": %.17g, \"price\": {\"bob\": %.17g, \"bearing\": %.17g, \"total\": %.17g}}\n",
           sqrt(sum / count), bob, bearing, bob + bearing);
    return 0;
}
