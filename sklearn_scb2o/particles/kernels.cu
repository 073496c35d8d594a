// Kernels of the particle system, in the plain C that CUDA and a C++ compiler for the CPU have in common.
//
// Compiled with REAL (float or double) and LANES (threads that share a row: 1, 32 or a whole block) defined. On a CPU
// a single thread does everything; the tests compile them so, and compare with the array functions.

#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__
#define THREAD ((long long)blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS ((long long)gridDim.x * blockDim.x)
#else
#include <math.h>
#define KERNEL extern "C" void
#define DEVICE static inline
#define THREAD 0LL
#define THREADS 1LL
#endif

typedef unsigned int u32;
typedef unsigned long long u64;

#define IS_DOUBLE (sizeof(REAL) == 8)
#define PER_GROUP (IS_DOUBLE ? 2 : 4)  // numbers that the four words of one Philox counter give

struct Words {
    u32 a, b, c, d;
};

// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011)
DEVICE Words philox(u64 low, u64 high, u64 seed) {
    u32 a = (u32)low, b = (u32)(low >> 32), c = (u32)high, d = (u32)(high >> 32);
    u32 key = (u32)seed, key2 = (u32)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        u64 p = (u64)0xD2511F53u * a, q = (u64)0xCD9E8D57u * c;
        a = (u32)(q >> 32) ^ b ^ key;
        b = (u32)q;
        c = (u32)(p >> 32) ^ d ^ key2;
        d = (u32)p;
        key += 0x9E3779B9u;
        key2 += 0xBB67AE85u;
    }
    Words words = {a, b, c, d};
    return words;
}

// a number in (0, 1): the middle of one of 2^53 intervals, or of 2^32 rounded to float, where 1 can occur
DEVICE double open_unit(u32 high, u32 low) {
    return ((high >> 5) * 67108864.0 + (low >> 6) + 0.5) * (1.0 / 9007199254740992.0);
}
DEVICE float open_unit(u32 word) { return word * 2.3283064365386963e-10f + 1.1641532182693481e-10f; }

// Box-Muller
DEVICE void normal_pair(double u, double v, double* out) {
    double radius = sqrt(-2.0 * log(u)), angle = 6.283185307179586 * v;
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}
DEVICE void normal_pair(float u, float v, float* out) {
    float radius = sqrtf(-2.0f * logf(u)), angle = 6.2831853f * v;
    out[0] = radius * cosf(angle);
    out[1] = radius * sinf(angle);
}

DEVICE void normals_of(Words w, double* out) { normal_pair(open_unit(w.a, w.b), open_unit(w.c, w.d), out); }
DEVICE void normals_of(Words w, float* out) {
    normal_pair(open_unit(w.a), open_unit(w.b), out);
    normal_pair(open_unit(w.c), open_unit(w.d), out + 2);
}

// on [0, 1): 53 or 24 bits
DEVICE void uniforms_of(Words w, double* out) {
    out[0] = ((w.a >> 5) * 67108864.0 + (w.b >> 6)) * (1.0 / 9007199254740992.0);
    out[1] = ((w.c >> 5) * 67108864.0 + (w.d >> 6)) * (1.0 / 9007199254740992.0);
}
DEVICE void uniforms_of(Words w, float* out) {
    const float unit = 5.9604644775390625e-08f;
    out[0] = (w.a >> 8) * unit;
    out[1] = (w.b >> 8) * unit;
    out[2] = (w.c >> 8) * unit;
    out[3] = (w.d >> 8) * unit;
}

// The sum over the threads of a row, in each of them.
DEVICE REAL row_sum(REAL x) {
#if defined(__CUDACC__) && LANES > 1
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
#if LANES > 32
    __shared__ REAL parts[LANES / 32];
    __syncthreads();  // the parts of the row before have been read
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int i = 0; i < LANES / 32; i++) x += parts[i];
#endif
#endif
    return x;
}

DEVICE REAL clamp(REAL x, REAL low, REAL high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

// `apply_boundary`; a bound at the horizon or beyond is none
DEVICE REAL bounded(REAL x, REAL low, REAL high, int boundary, REAL horizon) {
    if (boundary == 0) {  // reflect
        REAL inside = clamp(x, low, high);
        x = inside - (x - inside);
    } else if (boundary == 2 && (x < low || x > high) && low > -horizon && high < horizon && high > low) {  // periodic
        REAL width = high - low;
        REAL over = IS_DOUBLE ? (REAL)fmod((double)(x - low), (double)width) : (REAL)fmodf(x - low, width);
        x = low + (over < 0 ? over + width : over);
    }
    return clamp(x, low, high);
}

// Independent numbers out[rows][d], normal or uniform. Number j of row i comes from counter (group j / PER_GROUP of the
// row, `draw`), so that `move_particles` draws the same.
KERNEL fill_random(REAL* out, long long rows, int d, u64 seed, u64 draw, int normal) {
    int groups = (d + PER_GROUP - 1) / PER_GROUP;
    for (long long k = THREAD; k < rows * groups; k += THREADS) {
        REAL numbers[4];
        Words words = philox((u64)k, draw, seed);
        if (normal)
            normals_of(words, numbers);
        else
            uniforms_of(words, numbers);
        int start = (int)(k % groups) * PER_GROUP;
        for (int i = 0; i < PER_GROUP && start + i < d; i++) out[(k / groups) * d + start + i] = numbers[i];
    }
}

// x <- x - lam dt (x - m) + sigma sqrt(dt) D(x - m) B, and back into the box: `euler_maruyama_step` and
// `apply_boundary` of particles x[rows][d], of which run r has the rows from r * rows_per_run and consensus m[r][d].
//
// drift = lam dt; strength = sigma sqrt(dt), for scaled noise divided by sqrt(d); noise: 0 by the norm of x - m,
// 1 anisotropic; given: normals B[rows][d], or NULL to draw them.
KERNEL move_particles(
    const REAL* x, const REAL* m, const REAL* low, const REAL* high, const REAL* given, REAL* out, long long rows,
    long long rows_per_run, int d, REAL drift, REAL strength, REAL cap, REAL floor, REAL horizon, int noise, int boundary,
    u64 seed, u64 draw
) {
    int groups = (d + PER_GROUP - 1) / PER_GROUP;
    int lane = (int)(THREAD % LANES), lanes = THREADS < LANES ? 1 : LANES;
    for (long long i = THREAD / LANES; i < rows; i += (THREADS + LANES - 1) / LANES) {
        const REAL *from = x + i * d, *center = m + (i / rows_per_run) * d;
        REAL norm = 0;
        if (noise == 0) {
            for (int j = lane; j < d; j += lanes) {
                REAL z = from[j] - center[j];
                norm += z * z;
            }
            norm = row_sum(norm);
            norm = IS_DOUBLE ? (REAL)sqrt((double)norm) : (REAL)sqrtf((float)norm);
            norm = norm < cap ? norm : cap;
            norm = norm > floor ? norm : floor;
        }
        for (int g = lane; g < groups; g += lanes) {
            REAL normals[4];
            if (!given) normals_of(philox((u64)(i * groups + g), draw, seed), normals);
            for (int k = 0; k < PER_GROUP; k++) {
                int j = g * PER_GROUP + k;
                if (j >= d) break;
                REAL z = from[j] - center[j], size = norm;
                if (noise == 1) {
                    size = z < 0 ? -z : z;
                    size = size < cap ? size : cap;
                    size = size > floor ? size : floor;
                }
                REAL b = given ? given[i * d + j] : normals[k];
                out[i * d + j] = bounded(b * (size * strength) - drift * z + from[j], low[j], high[j], boundary, horizon);
            }
        }
    }
}

// Sums over particles y[runs][n][d] of y - center and of its square, center[runs][d]: parts [runs][parts][d] of both, to
// be added up. Thread k of a run takes coordinate k % d of every parts-th particle.
KERNEL sum_moments(
    const REAL* y, const REAL* center, REAL* first, REAL* second, long long runs, long long n, int d, long long parts
) {
    for (long long k = THREAD; k < runs * parts * d; k += THREADS) {
        long long run = k / (parts * d);
        int j = (int)(k % d);
        REAL sum = 0, squares = 0, origin = center[run * d + j];
        for (long long i = k / d % parts; i < n; i += parts) {
            REAL z = y[(run * n + i) * d + j] - origin;
            sum += z;
            squares += z * z;
        }
        first[k] = sum;
        second[k] = squares;
    }
}
